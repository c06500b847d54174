"""A daemon serves requests although its log cannot be written: a full pipe, a closed one, a full disk."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.fakes.forks import Fork, fork
from tests.fakes.processes import ROOT, Process, environment, free_port, until
from tests.system.asking import PATH, ask

_REQUESTS = 60
"""Lines of some 300 bytes each: several times what a pipe of one page holds."""


@contextmanager
def logging_to(descriptor: int | None, server: Process) -> Generator[str]:
    """Return the root URL of a daemon with this standard error; None closes it."""
    port = free_port()
    words = ["serve", "--port", str(port), "--backend-url", server.url]
    process = _start_without_streams(words) if descriptor is None else _start(words, descriptor)
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: is_up(url), "the daemon answers")
        yield url
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait(30)


def _start(words: list[str], descriptor: int) -> Fork:
    with Path(os.devnull).open("r+b") as nothing:
        streams = (nothing.fileno(), nothing.fileno(), descriptor)
        return fork("forge_proxy", words, environment(), ROOT, streams)


def _start_without_streams(words: list[str]) -> subprocess.Popen[bytes]:
    command = ["/bin/sh", "-c", 'exec "$@" 1>&- 2>&-', "sh", sys.executable, "-m", "forge_proxy", *words]
    return subprocess.Popen(command, cwd=ROOT, env=environment())


def is_up(url: str) -> bool:
    try:
        return httpx.get(url + "/healthz", timeout=5).is_success
    except httpx.TransportError:
        return False


def answers(url: str) -> int:
    """Return how many of the requests were answered."""
    with httpx.Client(base_url=url, timeout=10) as client:
        return sum(client.post(PATH, json=ask("says")).status_code == 200 for _ in range(_REQUESTS))


def test_a_log_pipe_that_nobody_reads_does_not_block_requests(server: Process) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    try:
        with logging_to(writing, server) as url:
            os.close(writing)

            assert answers(url) == _REQUESTS
    finally:
        os.close(reading)


def test_a_closed_log_pipe_does_not_fail_requests(server: Process) -> None:
    reading, writing = os.pipe()
    with logging_to(writing, server) as url:
        os.close(writing)
        os.close(reading)

        assert answers(url) == _REQUESTS


def test_a_full_disk_does_not_fail_requests(server: Process) -> None:
    with Path("/dev/full").open("wb") as full, logging_to(full.fileno(), server) as url:
        assert answers(url) == _REQUESTS


def test_closed_standard_streams_do_not_fail_requests(server: Process) -> None:
    with logging_to(None, server) as url:
        assert answers(url) == _REQUESTS
