"""Adapters for model servers: `engine.ports.Backend` over HTTP, and managed llama.cpp servers (`llama_server/`).

`selection.py` selects the backend from the settings (`config.py`, `catalog.py`). The adapters are
`openai_compatible.py`, `ollama.py` and `anthropic.py`; `wire/backends` has their codecs. An adapter yields chunks and
does not validate calls.
"""
