"""Notifies waiting tasks of changes of a job."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class JobNotifier:
    """Holds one event for each job that a task waits for.

    Get the event before reading the job, so that no change is missed.
    """

    def __init__(self) -> None:
        self._events: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        self.closed = False

    def get_event(self, job_id: str) -> asyncio.Event:
        """Return the event that is set when the job changes, or when the notifier is closed."""
        event = self._events.get(job_id)
        if event is None:
            event = self._events[job_id] = asyncio.Event()
            if self.closed:
                event.set()
        return event

    def notify(self, job_id: str) -> None:
        """Wake all tasks that wait for this job."""
        if (event := self._events.pop(job_id, None)) is not None:
            event.set()

    def close(self) -> None:
        """Wake all waiting tasks; later waits return immediately."""
        self.closed = True
        for job_id in list(self._events):
            self.notify(job_id)
