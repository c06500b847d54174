"""The child process that holds the embedded llama.cpp. Started by `embedded.py` as `python -m`, never imported by it.

Reads its parameters as one JSON line from stdin, answers `{"address": …}` on stdout when the model is loaded, and ends
when stdin closes: that happens by itself when the parent dies, kill -9 included.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

from forge_proxy.engine.orphans import end_with_parent


def main() -> None:
    """Load the model, say where the server listens, and stay until the parent is gone."""
    end_with_parent()
    # The wheel is optional, has no types, and is 100 MB that only this process needs.
    xllamacpp: Any = importlib.import_module("xllamacpp")

    said: dict[str, Any] = json.loads(sys.stdin.readline())
    params = xllamacpp.CommonParams()
    params.model.path = said["gguf"]
    params.model_alias = {said["alias"]}
    params.n_parallel = said["slots"]
    params.n_ctx = said["context"] * said["slots"]
    params.n_gpu_layers = said["gpu_layers"]
    if said["threads"]:
        params.cpuparams.n_threads = said["threads"]
    params.use_jinja = True
    params.ui = False
    params.port = said["port"]
    params.api_keys = [said["key"]]  # a loopback port is open to every web page on this machine
    server = xllamacpp.Server(params)
    sys.stdout.write(json.dumps({"address": server.listening_address}) + "\n")
    sys.stdout.flush()
    while sys.stdin.readline():
        pass
    os._exit(0)  # the server's threads do not end by themselves


if __name__ == "__main__":
    main()
