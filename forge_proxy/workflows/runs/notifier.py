"""Wakes those who wait for something to happen to a run."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class RunNotifier:
    """One for each run that somebody waits for. Take it before looking, so that nothing is missed in between."""

    def __init__(self) -> None:
        self._bells: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        self.closed = False

    def of(self, run_id: str) -> asyncio.Event:
        """Set when something happens to that run, or when all are to leave."""
        bell = self._bells.get(run_id)
        if bell is None:
            bell = self._bells[run_id] = asyncio.Event()
            if self.closed:
                bell.set()
        return bell

    def ring(self, run_id: str) -> None:
        """Something has happened to a run."""
        if (bell := self._bells.pop(run_id, None)) is not None:
            bell.set()

    def close(self) -> None:
        """Have all leave who wait."""
        self.closed = True
        for run_id in list(self._bells):
            self.ring(run_id)
