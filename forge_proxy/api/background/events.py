"""The events of a response, stored in pages while the model writes, so that clients can follow them at any time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress

import orjson

from forge_proxy.core.jobs.actions import RunPhase, write_action
from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.core.jobs.records import JobEvent, NewEvent
from forge_proxy.engine.shielded_tasks import ShieldedTasks
from forge_proxy.jobs.writer import JobWriter

PAGE = "events"
"""The type of job events that are pages."""
_PAGE_SECONDS = 0.25
"""Seconds between pages: what a client waits longer for an event, and how often a response writes to the database."""


def build_page(first: int, events: bytes) -> NewEvent:
    """Return a page of events whose first one has this `sequence_number`."""
    return NewEvent(PAGE, {"first": first, "events": events.decode()})


class EventPages:
    """Collects the events of one response and stores them.

    Once a page is stored, clients may have seen a part of the answer: a daemon that is started again then runs
    `interrupted` instead of requesting another response from the model.
    """

    def __init__(self, writer: JobWriter, first: int, interrupted: RunPhase) -> None:
        """`first` is the `sequence_number` of the first event."""
        self._writer = writer
        self._first = self.next = first
        self._action = write_action(interrupted)
        self._events: list[bytes] = []
        self._tasks = ShieldedTasks()
        self.is_stored = False
        """Whether a page is stored."""

    def add(self, events: bytes, following: int) -> None:
        """Add encoded events; `following` is the `sequence_number` after them."""
        if events:
            self._events.append(events)
            self.next = following

    def take(self) -> NewEvent | None:
        """Return the events that are not stored yet as a page."""
        if not self._events:
            return None
        taken, self._events = build_page(self._first, b"".join(self._events)), []
        self._first = self.next
        return taken

    async def store_regularly(self) -> None:
        """Store a page after each interval in which events came, until cancelled."""
        while True:
            await asyncio.sleep(_PAGE_SECONDS)
            if (taken := self.take()) is not None:
                self.is_stored = True
                outcome = orjson.dumps({"next": self._first}).decode()
                writing = self._writer.write(taken, wait=True, action=self._action, outcome=outcome)
                await self._tasks.run(writing)  # a change that is interrupted would have an unknown outcome


def read_next(outcome: str | None) -> int | None:
    """Return the `sequence_number` after the stored pages of an unfinished response; None if there is no page."""
    return None if outcome is None else orjson.loads(outcome).get("next")


async def read_pages(events: AsyncGenerator[JobEvent], after: int) -> AsyncGenerator[bytes]:
    """Yield the encoded events of a response whose `sequence_number` is greater than `after`."""
    async with aclosing(events):
        with suppress(JobNotFound):  # deleted while its events were streamed
            async for event in events:
                if event.type == PAGE and (data := b"".join(_events_after(event.data, after))):
                    yield data


def _events_after(data: str, after: int) -> Iterator[bytes]:
    stored = orjson.loads(data)
    for number, event in enumerate(stored["events"].split("\n\n")[:-1], stored["first"]):
        if number > after:
            yield event.encode() + b"\n\n"
