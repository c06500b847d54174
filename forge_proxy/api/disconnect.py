"""Cancels the work for a client that disconnects, in every phase, and reports an interruption by a shutdown."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from starlette.types import Receive

from forge_proxy.core.errors import ForgeError

_WATCH_DELAY = 0.02
"""Seconds before the watch begins: most responses of fast servers end before it costs them a task. A client that
disconnects earlier is noticed then.
"""


class ShuttingDown(ForgeError):
    """The daemon is shutting down, and the response was not complete within `server.drain_seconds`."""

    def __init__(self) -> None:
        super().__init__("forge-proxy is shutting down; retry when it is back")


def cancel_on_disconnect(receive: Receive) -> AbstractAsyncContextManager[None]:
    """Cancel the block when the client disconnects, and suppress only that cancellation.

    Any other cancellation is a shutdown and raises `ShuttingDown`. The request's body must have been read: from then
    on `receive` only reports the disconnect.
    """
    return _DisconnectWatch(receive)


class _DisconnectWatch(AbstractAsyncContextManager[None]):
    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._disconnected = False
        self._watcher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine runs in a task
        self._task = task
        self._timer = asyncio.get_running_loop().call_later(_WATCH_DELAY, self._begin)

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> bool:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None  # its traceback refers to this object: a cycle, left to the garbage collector
        if not isinstance(error, asyncio.CancelledError):
            return False
        if not self._disconnected:
            raise ShuttingDown from error
        self._task.uncancel()
        return True

    def _begin(self) -> None:
        self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._disconnected = True
        self._task.cancel()
