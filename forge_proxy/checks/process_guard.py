"""Watches the processes of a check: the kernel limits the memory of each, this limits that of all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psutil

from forge_proxy.checks.commands import CommandLimits

_PERIOD_SECONDS = 0.2


def guard_processes(limits: CommandLimits) -> Callable[[int], Awaitable[str]]:
    """Return a guard that ends when the processes use more than the limits."""

    async def guard(pid: int) -> str:
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            count, used = await asyncio.to_thread(_measure, pid)
            if count > limits.processes:
                return f"it started more than {limits.processes} processes"
            if used > limits.memory_mb * 1024 * 1024:
                return f"its processes used more than {limits.memory_mb} MB of memory"

    return guard


def _measure(pid: int) -> tuple[int, int]:
    """Return the number of processes below one, and the bytes of memory that they do not share."""
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return 0, 0
    used = 0
    for process in found:
        try:
            memory = process.memory_info()
        except psutil.Error:
            continue
        used += memory.rss - getattr(memory, "shared", 0)
    return len(found), used
