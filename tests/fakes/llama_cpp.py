"""A llama.cpp server that no daemon manages: the embedded one with the test model, on a port of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import httpx

from forge_proxy.backends.llama_server.programs import TINY_MODEL
from forge_proxy.processes.supervision import build_reaper_command
from tests.fakes.processes import ROOT, until


@contextmanager
def llama_cpp(key: str, *flags: str) -> Generator[str]:
    """Return its base URL once its model is loaded. It ends with this process, even if this process is killed.

    `flags` are further words of its command line.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    words = ["--model", str(TINY_MODEL), "--alias", "tiny-tools", "--host", "127.0.0.1", "--port", str(port), "--jinja"]
    words += ["--threads", "1", *flags]  # more threads would wait for each other in loops
    command = build_reaper_command([sys.executable, "-m", "forge_proxy.backends.llama_server.embedded_child", *words])
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "LLAMA_API_KEY": key}, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as reaper:  # fmt: skip
        assert reaper.stdin is not None
        try:
            until(lambda: _is_ready(url), "llama.cpp is ready")
            yield url
        finally:
            reaper.stdin.close()
            reaper.wait(10)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=1).status_code == 200
    except httpx.HTTPError:
        return False
