"""Starts processes as copies of one that has imported forge_proxy: see `tests/fakes/preloaded.py`."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

_START_SECONDS = 300.0


class Fork:
    """A running copy. It has the part of `subprocess.Popen` that tests use."""

    def __init__(self, replies: socket.socket) -> None:
        self._replies = replies
        self._replies.settimeout(_START_SECONDS)
        self.pid = int(replies.recv(100))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit code if it has ended."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float) -> int:
        """Return its exit code. Raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            self._replies.settimeout(timeout)
            try:
                self.returncode = int(self._replies.recv(100) or -signal.SIGKILL)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout) from None
            self._replies.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


class _Preloaded:
    """The program that forks."""

    def __init__(self) -> None:
        self._control, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its_end:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "tests.fakes.preloaded", str(its_end.fileno())],
                cwd=Path(__file__).parents[2], pass_fds=[its_end.fileno()], start_new_session=True,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self._lock = threading.Lock()
        atexit.register(self.close)

    def fork(self, request: Mapping[str, object], streams: Sequence[int]) -> Fork:
        ours, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its_end, self._lock:
            socket.send_fds(self._control, [json.dumps(request).encode()], [its_end.fileno(), *streams])
        return Fork(ours)

    def close(self) -> None:
        self._control.close()
        self._popen.wait(_START_SECONDS)


_preloaded = cache(_Preloaded)


def fork(
    module: str, words: Sequence[str], env: Mapping[str, str], cwd: Path, streams: tuple[int, int, int], *,
    new_session: bool = False,
) -> Fork:  # fmt: skip
    """Run a module with these arguments; `streams` are descriptors for stdin, stdout and stderr."""
    request = {
        "module": module, "words": list(words), "env": dict(env), "cwd": str(cwd), "new_session": new_session,
    }  # fmt: skip
    return _preloaded().fork(request, streams)
