"""Exchanges what is behind the door while requests come and go, without one of them lost.

Those that run may end, those that come wait in line, then the exchange is made, and they go on. What is exchanged, and
that a failed exchange is undone, is the business of who hands it in: a managed server's `ensure`, an Ollama's load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from forge_proxy.engine.admission import Admission

_T = TypeVar("_T")


class BackendSwitcher:
    """Makes one exchange after the other, behind one admission; `forget` what was known of the one before."""

    def __init__(self, admission: Admission, forget: Callable[[], None]) -> None:
        self._admission = admission
        self._forget = forget
        self._turn = asyncio.Lock()

    async def switch(self, exchange: Callable[[], Awaitable[_T]], *, drain_seconds: float | None) -> _T:
        """What `exchange` gives, which is made when no request runs any more, or after so many seconds; None waits for
        every answer.

        Whatever becomes of it, also when it raises or this is cancelled, those who wait then go on.
        """
        async with self._turn, self._admission.paused():
            await self._admission.drained(drain_seconds)
            try:
                return await exchange()
            finally:
                self._forget()
