"""A daemon whose event loop is watched: `python -m tests.attack.loop_monitor serve …` runs `forge-proxy serve`.

A timer of 5 ms runs in the daemon's own event loop. Between two of its ticks the loop's thread serves no other timer,
so the CPU time between them is the lag that the daemon itself causes. Unlike the latency that a client measures, it
does not depend on the load of the machine. The attack suite reads the longest intervals from a
file that both processes map.
"""

from __future__ import annotations

import asyncio
import gc
import mmap
import os
import sys
import threading
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import uvloop

FIGURES_FILE = "LOOP_MONITOR_FIGURES"
"""Environment variable: the file of the figures."""
_STACKS_FILE = "LOOP_MONITOR_STACKS"
"""Environment variable: a file to append the loop's stack to whenever a stretch is long; for debugging."""
_TICK_SECONDS = 0.005
_LONG_SECONDS = 0.05
_MOST_STACKS = 200


class LoopFigures:
    """The longest stretches so far, in seconds, in a file that the daemon writes and the suite reads and resets."""

    SIZE = 16

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._values = memoryview(mmap.mmap(file.fileno(), self.SIZE)).cast("d")

    @property
    def cpu(self) -> float:
        """CPU time of the loop's thread between two ticks."""
        return self._values[0]

    @property
    def gap(self) -> float:
        """Time on the clock between two ticks."""
        return self._values[1]

    def add(self, cpu: float, gap: float) -> None:
        """Count one more stretch."""
        self._values[0] = max(self._values[0], cpu)
        self._values[1] = max(self._values[1], gap)

    def reset(self) -> None:
        """Reset for the next attack."""
        self._values[0] = self._values[1] = 0.0


@contextmanager
def figures_file() -> Generator[Path]:
    """A file for the figures of one daemon."""
    with NamedTemporaryFile(prefix="forge-loop-") as file:
        file.write(bytes(LoopFigures.SIZE))
        file.flush()
        yield Path(file.name)


class Heartbeat:
    """The timer in the daemon's loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, figures: LoopFigures) -> None:
        self._loop = loop
        self._figures = figures
        self.ticked_at = time.monotonic()
        self.thread = 0
        self._cpu = 0.0
        loop.call_soon(self._start)

    def _start(self) -> None:
        self.thread = threading.get_ident()
        self.ticked_at, self._cpu = time.monotonic(), time.thread_time()
        self._loop.call_later(_TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        now, cpu = time.monotonic(), time.thread_time()
        self._figures.add(cpu - self._cpu, now - self.ticked_at)
        self.ticked_at, self._cpu = now, cpu
        self._loop.call_later(_TICK_SECONDS, self._tick)


def _print_stacks(heartbeat: Heartbeat, path: str) -> None:
    """Append the stack of the loop's thread, each 10 ms of a stretch that is too long, to a file."""
    collecting: list[bool] = []
    gc.callbacks.append(lambda phase, _: collecting.append(True) if phase == "start" else collecting.clear())
    with Path(path).open("a") as file:
        for _ in range(_MOST_STACKS):
            while not heartbeat.thread or time.monotonic() - heartbeat.ticked_at < _LONG_SECONDS:
                time.sleep(0.01)
            frame = sys._current_frames().get(heartbeat.thread)  # pyright: ignore[reportPrivateUsage]
            late = time.monotonic() - heartbeat.ticked_at
            words = ", collecting garbage" if collecting else ""
            print(f"{late * 1000:.0f} ms since the last tick{words}\n{''.join(traceback.format_stack(frame)[-9:])}",
                  file=file, flush=True)  # fmt: skip
            time.sleep(0.01)


def main() -> None:
    """Run the daemon; its loop is made by `uvloop.new_event_loop`, whatever the daemon does in it."""
    new_event_loop = uvloop.new_event_loop

    def monitored() -> asyncio.AbstractEventLoop:
        loop = new_event_loop()
        heartbeat = Heartbeat(loop, LoopFigures(Path(os.environ[FIGURES_FILE])))
        if path := os.environ.get(_STACKS_FILE):
            threading.Thread(target=_print_stacks, args=(heartbeat, path), daemon=True).start()
        return loop

    uvloop.new_event_loop = monitored  # pyright: ignore[reportAttributeAccessIssue]
    from forge_proxy.cli import main as forge_proxy

    forge_proxy()


if __name__ == "__main__":
    main()
