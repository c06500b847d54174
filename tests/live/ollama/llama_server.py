"""The `llama-server` that Ollama starts, on the llama.cpp of the extra `embedded`: its command line, as far as Ollama
uses it for a small model on a CPU.
"""

from __future__ import annotations

import argparse
import importlib
import signal
from typing import Any


def main() -> None:
    """Load the model and serve it until Ollama ends this process."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--list-devices", action="store_true")
    parser.add_argument("--model")
    parser.add_argument("--port", type=int)
    parser.add_argument("-c", dest="context", type=int)
    parser.add_argument("-np", dest="slots", type=int)
    parser.add_argument("--no-jinja", action="store_true")
    parser.add_argument("--context-shift", action="store_true")
    said, _ = parser.parse_known_args()
    if said.list_devices:
        return
    xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no types
    params = xllamacpp.CommonParams()
    params.model.path = said.model
    params.port = said.port
    params.n_ctx = said.context
    params.n_parallel = said.slots
    params.use_jinja = not said.no_jinja
    params.ctx_shift = said.context_shift
    params.cpuparams.n_threads = (
        1  # with so little to compute, threads that wait for each other cost more than they save
    )
    params.ui = False
    server = xllamacpp.Server(params)
    signal.pause()
    del server


if __name__ == "__main__":
    main()
