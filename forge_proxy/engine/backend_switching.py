"""Switches the backend, or its model, at runtime without losing a request.

Running requests finish, new ones wait in the queue, then the switch is made and the queue continues. The function
passed in performs the switch and undoes a failed one: a managed server's `ensure`, Ollama's load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from forge_proxy.engine.admission import Admission

_T = TypeVar("_T")


class BackendSwitcher:
    """Performs switches one at a time behind one admission; `forget` drops what was cached about the old backend."""

    def __init__(self, admission: Admission, forget: Callable[[], None]) -> None:
        self._admission = admission
        self._forget = forget
        self._turn = asyncio.Lock()

    async def switch(self, perform: Callable[[], Awaitable[_T]], *, drain_seconds: float | None) -> _T:
        """Await `perform` once no request runs, or after `drain_seconds`, and return its result; None waits for
        every response.

        The queue continues afterwards in any case, also if `perform` raises or this call is cancelled.
        """
        async with self._turn, self._admission.pause():
            await self._admission.wait_until_drained(drain_seconds)
            try:
                return await perform()
            finally:
                self._forget()
