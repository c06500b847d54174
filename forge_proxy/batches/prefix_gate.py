"""Lets the first line of a new prefix go alone until its prompt is processed.

Otherwise several slots of the model server would process the same prefix at the same time: what a busy slot computes is
not reused by others until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_Key = tuple[str, int]


class PrefixGate:
    """The prefixes of all batches. They are forgotten with the daemon: the next one processes them again."""

    def __init__(self) -> None:
        self._opened: dict[_Key, asyncio.Event] = {}

    async def enter(self, batch_id: str, group: int) -> Callable[[], None]:
        """Wait until another line of the group has been processed, or return at once for the first one.

        What is returned must be called when the prompt of this line is processed, and when its request has ended.
        """
        key = (batch_id, group)
        if (opened := self._opened.get(key)) is None:
            opened = self._opened[key] = asyncio.Event()
            return opened.set
        await opened.wait()
        return opened.set

    def forget(self, batch_id: str) -> None:
        """Forget the prefixes of a batch that has ended."""
        for key in [key for key in self._opened if key[0] == batch_id]:
            self._opened.pop(key).set()
