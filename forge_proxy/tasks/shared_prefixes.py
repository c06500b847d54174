"""Has the first of several calls whose prompts share a prefix processed before the others are sent.

A model server that has the prefix in its cache then processes it once; calls that begin together would each process
all of their prompts. Best effort: nothing is stored, and each daemon knows its own calls only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from forge_proxy.jobs.cancellation import run_cancellable


class SharedPrefixes:
    """The calls under way, by groups that share a prefix."""

    def __init__(self) -> None:
        self._processed: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        """Set once the first prompt of a group was processed; kept while calls of the group are under way."""

    @asynccontextmanager
    async def wait_for_first(self, group: str, cancel: asyncio.Event) -> AsyncGenerator[Callable[[], None]]:
        """Run a call of a group in this block. Yields a function that the call invokes at its first token.

        Waits until the first call of the group has received its first token or has ended. Raises `Cancelled` if
        `cancel` is set before.
        """
        processed = self._processed.get(group)
        if processed is not None:
            await run_cancellable(cancel, processed.wait())
        else:
            processed = self._processed[group] = asyncio.Event()
        try:
            yield processed.set
        finally:
            processed.set()
