"""Waits for something unless an event comes first."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Cancelled(Exception):
    """The event came first; what was waited for was cancelled."""


async def unless(event: asyncio.Event | None, work: Coroutine[Any, Any, T]) -> T:
    """What `work` comes to. Raises `Cancelled` if `event` is set before that."""
    if event is None:
        return await work
    if not inspect.iscoroutinefunction(event.wait):  # one of threading, whose wait would hold up everything
        work.close()
        raise TypeError("cancel_event: expected an asyncio.Event; from a thread, set it by loop.call_soon_threadsafe")
    if event.is_set():
        work.close()
        raise Cancelled
    doing = asyncio.ensure_future(work)
    stop = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({doing, stop}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        raise Cancelled
    finally:
        for task in (doing, stop):
            task.cancel()
        await asyncio.gather(doing, stop, return_exceptions=True)


async def take(lock: asyncio.Lock | asyncio.Semaphore, event: asyncio.Event) -> None:
    """Acquire it. Raises `Cancelled` if `event` is set before that. Who is cancelled meanwhile does not keep it."""
    taking = asyncio.ensure_future(lock.acquire())

    async def taken() -> None:
        await taking

    try:
        await unless(event, taken())
    except BaseException:
        if not taking.cancel() and not taking.cancelled():  # it was given to us at the last moment
            lock.release()
        raise
