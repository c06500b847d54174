"""A caller who leaves ends the work that is done for them, in every phase; so does a daemon that has to stop."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from starlette.types import Receive

from forge_proxy.core.errors import ForgeError

_WATCHED_AFTER = 0.02
"""Seconds. One who left before that is noticed then."""


class ShuttingDown(ForgeError):
    """The daemon was told to stop, and the answer was not complete when the time for that was over."""

    def __init__(self) -> None:
        super().__init__("forge-proxy is being stopped; ask again when it is back")


def leaving_cancels(receive: Receive) -> AbstractAsyncContextManager[None]:
    """Cancel the block when the client disconnects, and swallow only that cancellation. Shutdown raises `ShuttingDown`.

    The request's body must have been read: from then on `receive` only tells of the disconnect.
    """
    return _Watched(receive)


class _Watched(AbstractAsyncContextManager[None]):
    """The block. Most answers of fast servers are over before it costs them a task."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = False
        self._watcher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine runs in a task
        self._task = task
        self._timer = asyncio.get_running_loop().call_later(_WATCHED_AFTER, self._begin)

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> bool:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if not isinstance(error, asyncio.CancelledError):
            return False
        if not self._left:
            raise ShuttingDown from error
        self._task.uncancel()
        return True

    def _begin(self) -> None:
        self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left = True
        self._task.cancel()
