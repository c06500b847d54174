"""A caller who leaves ends the work that is done for them, in every phase; so does a daemon that has to stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.types import Receive

from forge_proxy.core.errors import ForgeError


class Stopping(ForgeError):
    """The daemon was told to stop, and the answer was not complete when the time for that was over."""

    def __init__(self) -> None:
        super().__init__("forge-proxy is being stopped; ask again when it is back")


@asynccontextmanager
async def leaving_cancels(receive: Receive) -> AsyncGenerator[None]:
    """Cancels the block when the caller disconnects, and swallows just that cancellation; another raises `Stopping`.

    The request's body must have been read: from then on `receive` only tells of the disconnect.
    """
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  # a coroutine runs in a task
    left = False

    async def watch() -> None:
        nonlocal left
        while (await receive())["type"] != "http.disconnect":
            pass
        left = True
        task.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError as exc:
        if not left:
            raise Stopping from exc
        task.uncancel()
    finally:
        watcher.cancel()
