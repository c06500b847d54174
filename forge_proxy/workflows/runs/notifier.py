"""Notifies waiting tasks of changes of a run."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class RunNotifier:
    """Holds one event for each run that a task waits for.

    Get the event before reading the run, so that no change is missed.
    """

    def __init__(self) -> None:
        self._events: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        self.closed = False

    def event_of(self, run_id: str) -> asyncio.Event:
        """Return the event that is set when the run changes, or when the notifier is closed."""
        event = self._events.get(run_id)
        if event is None:
            event = self._events[run_id] = asyncio.Event()
            if self.closed:
                event.set()
        return event

    def notify(self, run_id: str) -> None:
        """Wake all tasks that wait for this run."""
        if (event := self._events.pop(run_id, None)) is not None:
            event.set()

    def close(self) -> None:
        """Wake all waiting tasks; later waits return immediately."""
        self.closed = True
        for run_id in list(self._events):
            self.notify(run_id)
