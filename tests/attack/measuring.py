"""Runs one attack and meanwhile measures the daemon (memory, CPU, event loop) and the waits of an honest client."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.attack.attack import Attack, Drill, Result
from tests.attack.target import Target
from tests.fakes.processes import ROOT

_SAMPLE_SECONDS = 0.01
_LINGER_SECONDS = 0.3
"""Seconds that the measuring client continues after an attack, so that short attacks overlap with some requests."""


@dataclass
class _Memory:
    """The highest resident memory so far, in MB."""

    peak: float


@dataclass
class _Waits:
    """What the honest client measured; None before its end."""

    lag: float | None = None
    chat: float | None = None
    failures: tuple[str, ...] = ()
    failed: int = 0


def run_attack(attack: Attack, target: Target) -> Result:
    """Run one attack against a running target."""
    began, before, cpu = time.monotonic(), target.memory_mb(), target.cpu_seconds()
    waits = _Waits()
    if target.loop:
        target.loop.reset()

    def run() -> None:
        nonlocal waits
        with _canary(target, attack.settings.get("FORGE_PROXY_SERVER__API_KEYS", "").split(",")[0]) as waits:
            attack.run(target)

    with _sampled(target, before) as memory:
        breach = _breach_of(run)
    growth = memory.peak - before
    if breach is None and growth > attack.max_growth_mb:
        breach = f"memory grew by {growth:.0f} MB (at most {attack.max_growth_mb:.0f})"
    if breach is None and waits.failed:
        breach = f"the honest client failed {waits.failed} times: {', '.join(waits.failures)}"
    if breach is None and "Traceback" in target.proxy.printed:
        breach = "the daemon logged a traceback"
    with suppress(OSError):
        cpu = target.cpu_seconds() - cpu
    loop, lag, chat = (_in_ms(seconds) for seconds in (target.loop.cpu if target.loop else None, waits.lag, waits.chat))
    return Result(attack, breach, time.monotonic() - began, cpu, growth, loop, lag, chat)


def run_drill(drill: Drill) -> Result:
    """Run one drill."""
    began = time.monotonic()
    breach = _breach_of(drill.run)
    return Result(drill, breach, time.monotonic() - began)


def _breach_of(run: Callable[[], None]) -> str | None:
    """Return in one line how an attack succeeded; None if it did not."""
    try:
        run()
    except AssertionError as exc:
        return str(exc).splitlines()[0] if str(exc) else "an assertion failed"
    except Exception as exc:  # noqa: BLE001  whatever it is, it goes into the table
        return f"{type(exc).__name__}: {str(exc).splitlines()[0] if str(exc) else ''}"
    return None


def _in_ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


@contextmanager
def _sampled(target: Target, before: float) -> Generator[_Memory]:
    memory, ended = _Memory(before), threading.Event()

    def sample() -> None:
        while not ended.wait(_SAMPLE_SECONDS):
            with suppress(OSError, StopIteration):  # it may have ended
                memory.peak = max(memory.peak, target.memory_mb())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield memory
    finally:
        ended.set()
        thread.join()


@contextmanager
def _canary(target: Target, key: str) -> Generator[_Waits]:
    words = [sys.executable, "-m", "tests.attack.canary", target.host, str(target.port), key]
    process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    waits = _Waits()
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        yield waits
    finally:
        time.sleep(_LINGER_SECONDS)
        with suppress(subprocess.TimeoutExpired):
            out, _ = process.communicate(timeout=90)
            measured = json.loads(out or "{}")
            waits.lag, waits.chat = measured.get("lag"), measured.get("chat")
            waits.failures, waits.failed = tuple(measured.get("failures", ())), measured.get("failed", 0)
        process.kill()
        process.wait()
