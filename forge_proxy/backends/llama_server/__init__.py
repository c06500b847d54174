"""Managed llama.cpp servers: child processes that the daemon starts, watches, restarts and stops.

Requests use `managed.py` (one model) or `catalog.py` (several), which get the server from `manager.py`. The manager
submits commands to `supervisor.py`, the only task that changes the process. An instance (`instance.py`) is one start of
the server: `launch.py` builds its command line, `process.py` runs it, `loading.py` waits until the model is loaded.
"""
