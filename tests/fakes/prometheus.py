"""A Prometheus of a test's own, and promtool: Debian's package `prometheus`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.fakes.processes import free_port, until


def need_program(name: str) -> str:
    """Return the path of `prometheus` or `promtool`; without it the test is skipped, and in CI it fails."""
    found = shutil.which(name)
    if found is None:
        why = "Prometheus is not installed: apt-get install prometheus"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)
    return found


def check_with_promtool(what: str, *files: Path, text: str | None = None) -> None:
    """Run `promtool check`, which must find nothing."""
    command = [need_program("promtool"), "check", what, *map(str, files)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def is_ready(self) -> bool:
        """Return whether it answers queries."""
        try:
            return httpx.get(f"{self._url}/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    def query(self, expression: str) -> list[float]:
        """Return the values of an expression."""
        found = httpx.get(f"{self._url}/api/v1/query", params={"query": expression}).json()
        assert found["status"] == "success", found
        return [float(result["value"][1]) for result in found["data"]["result"]]


@contextmanager
def prometheus(config: str, folder: Path) -> Generator[Prometheus]:
    """Run a server with this configuration."""
    file, port = folder / "prometheus.yaml", free_port()
    file.write_text(config)
    command = [
        need_program("prometheus"), f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        server = Prometheus(port)
        try:
            until(server.is_ready, "Prometheus answers")
            yield server
        finally:
            process.terminate()
