"""A Temporal server of a test: the CLI's development server on a file, so that it survives its own end."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fakes.processes import free_port, until

_VARIABLE = "FORGE_TEST_TEMPORAL"
"""The path of the program `temporal`; `make system-temporal` sets it."""


def need_program() -> str:
    """Return the path of the program. Without it, the test is skipped with a reason."""
    found = os.environ.get(_VARIABLE) or shutil.which("temporal")
    if not found:
        pytest.skip(f"no Temporal server: set {_VARIABLE}, or run make system-temporal (needs Go 1.26)")
    return found


class TemporalServer:
    """One server. `address` stays the same when it is started again."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._file = folder / "temporal.db"
        self._port = free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        command = [
            self._program, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(self._port),
            "--db-filename", str(self._file), "--log-level", "never",
        ]  # fmt: skip
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self._is_ready, "Temporal is ready")

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def _is_ready(self) -> bool:
        words = [self._program, "operator", "namespace", "describe", "default", "--address", self.address]
        done = subprocess.run(words, capture_output=True, timeout=20, check=False)
        return done.returncode == 0


@contextmanager
def temporal_server(*, is_started: bool = True) -> Generator[TemporalServer]:
    """Start a server, and kill it at the end."""
    program = need_program()
    with tempfile.TemporaryDirectory(prefix="forge-temporal-", ignore_cleanup_errors=True) as folder:
        server = TemporalServer(program, Path(folder))
        if is_started:
            server.start()
        try:
            yield server
        finally:
            server.kill()
