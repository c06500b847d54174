"""Waits for work or a lock, unless a cancel event is set first."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Cancelled(Exception):
    """The event was set first; the work was cancelled."""


async def run_cancellable(event: asyncio.Event | None, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. Raises `Cancelled` and cancels the work if `event` is set first."""
    if event is None:
        return await work
    if not inspect.iscoroutinefunction(event.wait):  # a threading.Event, whose wait would block the event loop
        work.close()
        raise TypeError("cancel_event: expected an asyncio.Event; from a thread, set it by loop.call_soon_threadsafe")
    if event.is_set():
        work.close()
        raise Cancelled
    running = asyncio.ensure_future(work)
    stop = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
        raise Cancelled
    finally:
        for task in (running, stop):
            task.cancel()
        await asyncio.gather(running, stop, return_exceptions=True)


async def acquire_cancellable(lock: asyncio.Lock | asyncio.Semaphore, event: asyncio.Event) -> None:
    """Acquire `lock`. Raises `Cancelled` if `event` is set first. A task cancelled meanwhile does not keep the lock."""
    acquisition = asyncio.ensure_future(lock.acquire())

    async def wait_for_lock() -> None:
        await acquisition

    try:
        await run_cancellable(event, wait_for_lock())
    except BaseException:
        if not acquisition.cancel() and not acquisition.cancelled():  # it was acquired at the last moment
            lock.release()
        raise
