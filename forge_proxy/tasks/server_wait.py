"""Waits for a model server that is unavailable: a call is then sent again, as often as necessary."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from forge_proxy.core.backend_errors import BackendLost, BackendNotReady, BackendUnreachable, ModelNotLoaded
from forge_proxy.core.errors import ForgeError, Overloaded
from forge_proxy.jobs.cancellation import run_cancellable

_R = TypeVar("_R")
ReportWait: TypeAlias = Callable[[ForgeError, float], Awaitable[None]]
"""Called with the error of an unavailable model server and the seconds until the next attempt."""
TEMPORARY_ERRORS = (BackendLost, BackendNotReady, BackendUnreachable, ModelNotLoaded, Overloaded)
"""Errors after which a call waits for the model server and is sent again."""
_WAIT_SECONDS = (1, 2, 5, 10, 20, 30)
"""Seconds between the attempts to reach an unavailable model server; the last one repeats."""


@dataclass(frozen=True, slots=True)
class ServerWait:
    """How a call waits for an unavailable model server: until `cancel` is set."""

    cancel: asyncio.Event
    report: ReportWait

    async def run(self, work: Callable[[], Coroutine[Any, Any, _R]]) -> _R:
        """Return the result of `work`, which is repeated while the model server is unavailable. Raises `Cancelled`."""
        waits = 0
        while True:
            try:
                return await run_cancellable(self.cancel, work())
            except TEMPORARY_ERRORS as error:
                seconds = _WAIT_SECONDS[min(waits, len(_WAIT_SECONDS) - 1)]
                waits += 1
                await self.report(error, seconds)
                await run_cancellable(self.cancel, asyncio.sleep(seconds))
