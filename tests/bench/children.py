"""The measured processes: started on free loopback ports, ended in any case, and measured through /proc."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.relay import CLIENTS

ROOT = Path(__file__).parents[2]
NO_SETTINGS: Mapping[str, str] = {}
_START_SECONDS = 30.0
_STOP_SECONDS = 10.0
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Server:
    """A running process that responds on loopback."""

    name: str
    port: int
    pid: int
    ready_after: float
    """Seconds from its start until `/healthz` responded."""

    def cpu_seconds(self) -> float:
        """CPU time of all its threads so far, user and system together."""
        tasks = Path(f"/proc/{self.pid}/task")
        try:
            return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9
        except FileNotFoundError:  # a kernel with a coarser clock
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Resident memory in MB (10^6 bytes)."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(kilobytes) * 1024 / 1e6


@dataclass(frozen=True, slots=True)
class Setup:
    """All processes: the backend alone, the relays in front of it and the daemon in front of it."""

    backend: Server
    relays: tuple[Server, ...]
    daemon: Server

    @property
    def relay(self) -> Server:
        """The reference: the relay with the client library that the daemon uses."""
        return self.relays[0]

    @property
    def all(self) -> tuple[Server, ...]:
        return (self.backend, *self.relays, self.daemon)


@contextmanager
def running_setup() -> Generator[Setup]:
    """Start all processes; end them at the end."""
    with ExitStack() as stack:
        backend = stack.enter_context(running_backend())
        relays = tuple(
            stack.enter_context(_running(client, "tests.bench.relay", client, "{port}", str(backend.port)))
            for client in CLIENTS
        )
        yield Setup(backend, relays, stack.enter_context(running_daemon(backend)))


@contextmanager
def running_backend() -> Generator[Server]:
    """The backend alone."""
    with _running("direct", "tests.bench.backend", "{port}") as backend:
        yield backend


@contextmanager
def running_daemon(backend: Server, settings: Mapping[str, str] = NO_SETTINGS) -> Generator[Server]:
    """The daemon in front of the backend, as a user starts it. `settings` are variables of its environment."""
    url = f"http://127.0.0.1:{backend.port}"
    words = ("serve", "--backend", "openai", "--backend-url", url, "--port", "{port}")
    with _running("daemon", "forge_proxy", *words, settings=settings) as server:
        yield server


@contextmanager
def _running(name: str, module: str, *words: str, settings: Mapping[str, str] = NO_SETTINGS) -> Generator[Server]:
    port = _free_port()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FORGE_PROXY_")}
    environment.update(settings)
    with tempfile.TemporaryFile() as log:
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", module, *(word.format(port=port) for word in words)],
            cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            _wait_until_it_answers(process, port, name)
            yield Server(name, port, process.pid, time.monotonic() - began)
        except BaseException:
            log.seek(0)
            sys.stderr.buffer.write(log.read()[-2000:])
            raise
        finally:
            _end(process)


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, name: str) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            with _NO_PROXY.open(f"http://127.0.0.1:{port}/healthz", timeout=_START_SECONDS):
                return
        except OSError as exc:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{name} did not start") from exc
            time.sleep(0.002)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
