"""The embedded llama.cpp as a program that accepts the llama-server flags that the daemon uses.

Started with `python -m`, never imported: it needs the wheel of the extra `embedded`, which has no types and is 100 MB.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from forge_proxy.backends.llama_server.launch import CACHE_TYPES


def main(words: Sequence[str]) -> None:
    """Load the model and serve until a signal ends the process."""
    options = _parser().parse_args(words)
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.model_alias = {options.alias}
    params.hostnames = [options.host]
    params.port = options.port
    params.api_keys = [os.environ["LLAMA_API_KEY"]]  # a loopback port is open to every web page on this machine
    params.use_jinja = options.jinja
    params.ui = False
    params.n_ctx = options.context
    if options.parallel is not None:
        params.n_parallel = options.parallel
    if options.gpu_layers is not None:
        params.n_gpu_layers = options.gpu_layers
    if options.threads is not None:
        params.cpuparams.n_threads = options.threads
    for name in ("cache_type_k", "cache_type_v"):
        if (kind := getattr(options, name)) is not None:
            setattr(params, name, getattr(xllamacpp.ggml_type, f"GGML_TYPE_{kind.upper()}"))
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as exc:  # llama.cpp has logged the reason
        sys.exit(f"error: {exc}")
    while server:
        signal.pause()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("embedded llama.cpp")
    parser.add_argument("--model", required=True)
    parser.add_argument("--alias", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--jinja", action="store_true")
    parser.add_argument("-c", dest="context", type=int, default=0)
    parser.add_argument("--parallel", type=int)
    parser.add_argument("-ngl", dest="gpu_layers", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--cache-type-k", choices=CACHE_TYPES)
    parser.add_argument("--cache-type-v", choices=CACHE_TYPES)
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
