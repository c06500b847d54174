"""Waits until a server has loaded its model. There is no time limit while loading makes progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from forge_proxy.backends.llama_server.load_activity import measure
from forge_proxy.backends.llama_server.log_tail import LogTail
from forge_proxy.backends.llama_server.process import ServerProcess
from forge_proxy.backends.llama_server.status import LoadProgress
from forge_proxy.engine.ports import Backend, Clock

_FIRST_LOOK, _LAST_LOOK = 0.02, 0.5
"""Seconds between checks: short at first, because small models load quickly."""
_LINES_SHOWN = 3


class LoadFailed(Exception):
    """The server exited or hangs while loading. The message quotes its log."""


async def wait_until_loaded(
    process: ServerProcess,
    server: Backend,
    log: LogTail,
    silence: float,
    clock: Clock,
    report: Callable[[LoadProgress], None],
) -> None:
    """Return when the server reports that it is healthy. Calls `report` with the progress until then.

    Raises `LoadFailed` if the process exits, or if it logs nothing, reads nothing and allocates no memory for `silence`
    seconds.
    """
    began = moved = clock.now()
    furthest = await asyncio.to_thread(measure, process.pid, log.size)
    pause = _FIRST_LOOK
    while True:
        if process.has_ended:
            raise LoadFailed(process.describe_end(loading=True))
        health = await server.health()  # the port opens long before
        if health.status == "ok":
            return
        now = clock.now()
        growth = await asyncio.to_thread(measure, process.pid, log.size)
        if growth.exceeds(furthest):
            furthest, moved = growth, now
        elif now - moved >= silence:
            lines = " | ".join(log.latest_words(_LINES_SHOWN)) or "(nothing)"
            raise LoadFailed(f"it hangs: no log line, disk read or allocation for {silence:g} s; its log ends: {lines}")
        report(LoadProgress(now - began, log.latest, growth.read, growth.resident))
        await _sleep_or_end(process, pause)
        pause = min(2 * pause, _LAST_LOOK)


async def _sleep_or_end(process: ServerProcess, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        return
