"""A checkout of the project whose daemon is attacked: this one, or one of an earlier commit with the same attacks."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

import psutil

from tests.attack.attack import Attack
from tests.attack.measuring import run_attack
from tests.attack.target import Target
from tests.fakes.processes import Ended, Process, command, daemon, model_server

CPU_SECONDS, SECONDS = 60.0, 100.0
"""A daemon that exceeds this CPU time or duration in one attack is killed."""
_MEMORY_BYTES = 6 * 1024**3
"""The address space of one process of the daemon."""


class Outcome(NamedTuple):
    """The result of one attack. Figures are None if nothing was measured."""

    text: str
    cpu_seconds: float | None = None
    growth_mb: float | None = None
    wait_ms: float | None = None
    """The longest wait of an honest client for a small guarded chat completion."""


class MeasuredTarget(Target):
    """A daemon whose child processes count in its CPU time and memory, and that may be killed meanwhile."""

    def __init__(self, proxy: Process, server: Process) -> None:
        super().__init__(proxy, server)
        self._cpu_seconds = 0.0
        self.was_killed = False

    def cpu_seconds(self) -> float:
        """CPU time so far of the daemon and its children, ended ones too; the last figure once it is killed."""
        with suppress(OSError, ValueError):
            self._cpu_seconds = sum(_cpu_seconds(pid) for pid in _family(self.proxy.pid))
        return self._cpu_seconds

    def memory_mb(self) -> float:
        """Resident memory of the daemon and its children, in MB."""
        return sum(_resident_mb(pid) for pid in _family(self.proxy.pid))

    def kill(self) -> None:
        """End the daemon and its children."""
        self.cpu_seconds()
        self.was_killed = True
        for pid in reversed(_family(self.proxy.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Checkout:
    """One checkout. Its daemons run with its code and with the packages of this interpreter."""

    def __init__(self, folder: Path, *packages: Path) -> None:
        self._folder = folder
        self._env = {"PYTHONPATH": os.pathsep.join(map(str, (folder, *packages)))}

    def with_packages(self, folder: Path) -> Checkout:
        """The same with packages of this folder in place of the installed ones."""
        return Checkout(self._folder, folder)

    @contextmanager
    def daemon(
        self, *options: str, env: Mapping[str, str] | None = None, limits: Mapping[int, int] | None = None
    ) -> Generator[Process]:
        """A daemon with a limit of its memory, and with these limits."""
        all_limits = {resource.RLIMIT_AS: _MEMORY_BYTES, **(limits or {})}
        with daemon(*options, env={**(env or {}), **self._env}, cwd=self._folder, limits=all_limits) as proxy:
            yield proxy

    def process(self, *words: str, stderr: IO[str]) -> Process:
        """Start `forge-proxy` with these arguments and this standard error, which may not be ready yet."""
        return Process("forge_proxy", *words, env=self._env, stderr=stderr, cwd=self._folder)

    def command(self, *words: str, env: Mapping[str, str] | None = None) -> Ended:
        """A command of `forge-proxy`, run to its end."""
        return command(*words, env={**(env or {}), **self._env}, cwd=self._folder)

    def measure(
        self,
        act: Callable[[MeasuredTarget], str],
        server: Callable[[], AbstractContextManager[Process]] = model_server,
        env: Mapping[str, str] | None = None,
        limits: Mapping[int, int] | None = None,
    ) -> Outcome:
        """Attack a daemon before a model server of its own."""
        options = ("--backend", "openai")
        with server() as backend, self.daemon(*options, "--backend-url", backend.url, env=env, limits=limits) as proxy:
            return measure(act, MeasuredTarget(proxy, backend))


def measure(act: Callable[[MeasuredTarget], str], target: MeasuredTarget) -> Outcome:
    """Attack a running daemon, within the limits, while an honest client measures its waits."""
    texts: list[str] = []
    ended = threading.Event()
    began, cpu_before = time.monotonic(), target.cpu_seconds()

    def limit() -> None:
        while not ended.wait(0.5):
            if target.cpu_seconds() - cpu_before > CPU_SECONDS or time.monotonic() - began > SECONDS:
                target.kill()
                return

    def run(_: Target) -> None:
        try:
            texts.append(act(target))
        except (OSError, AssertionError) as exc:
            texts.append(str(exc).partition("\n")[0] or type(exc).__name__)

    watching = threading.Thread(target=limit)
    watching.start()
    try:
        result = run_attack(Attack("repro", "load", run), target)
    finally:
        ended.set()
        watching.join()
    text = f"not finished after {time.monotonic() - began:.0f} s" if target.was_killed else " ".join(texts)
    if not target.was_killed and "honest client failed" in (result.breach or ""):
        text += f"; {result.breach}"
    return Outcome(text, result.cpu_seconds, result.growth_mb, result.chat_ms)


def _family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return [pid]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, IndexError):
        return 0.0
