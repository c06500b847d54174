"""Keeps the latest events of the daemon for those who follow them (`GET /admin/v1/events`).

A follower has a position in the one ring of events, and no queue of its own: adding an event costs the same for any
number of followers, and a follower that is too slow loses its position, which ends its feed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from itertools import islice, starmap
from typing import TypeAlias

from forge_proxy.core.event_feed import EventFilter, FeedEvent, FeedNotice
from forge_proxy.core.requests.records import RequestOrigin
from forge_proxy.engine.events import Event, RequestAbandoned, RequestAnswered, RequestFailed, ServerStateChanged
from forge_proxy.telemetry.log_events import to_log_line

_CAPACITY = 2000
"""Events that are kept, each some 1 kB."""
_MAX_FOLLOWERS = 32
_EndEvent: TypeAlias = RequestAnswered | RequestFailed | RequestAbandoned
_OMITTED_FIELDS = frozenset({"because", "done", "exc_info", "former_event", "told"})
"""Fields that log lines repeat under their former names until 0.3, and an exception, which is no JSON."""


class EventFeed:
    """A listener of events that keeps the latest ones and passes them to followers."""

    def __init__(
        self,
        capacity: int = _CAPACITY,
        max_followers: int = _MAX_FOLLOWERS,
        read_clock: Callable[[], float] = time.time,
        describe_origin: Callable[[str], Mapping[str, str | None]] = lambda _: {},
    ) -> None:
        """`read_clock` returns the seconds since 1970, `describe_origin` the model and the client of a request."""
        self._describe_origin = describe_origin
        self._read_clock = read_clock
        self.max_followers = max_followers
        self._ring: deque[tuple[int, _EndEvent | FeedEvent]] = deque(maxlen=capacity)
        """Events with their ids. The most frequent ones, the ends of requests, are converted for followers only."""
        self._added = 0
        """The number of all events so far, which is the position of the next one."""
        self._last_id = self._lost_id = int(1e6 * read_clock())
        """The id of the latest event, and of the latest one that is not kept: before the start, none is."""
        self.followers = 0
        self._changed = asyncio.Event()
        self._is_closed = False

    def __call__(self, event: Event, /) -> None:
        """See `engine.ports.Observer`."""
        if len(self._ring) == self._ring.maxlen:
            self._lost_id = self._ring[0][0]
        self._last_id = max(self._last_id + 1, int(1e6 * self._read_clock()))
        kept = event if isinstance(event, _EndEvent) else self._to_feed_event(event, self._last_id)
        self._ring.append((self._last_id, kept))
        self._added += 1
        if self.followers:
            self._wake()

    async def follow(
        self, which: EventFilter, *, after: int = 0, last: int | None = None, stays: bool = True
    ) -> AsyncGenerator[FeedEvent | FeedNotice]:
        """Yield the kept events with an id greater than `after`, then, with `stays`, each new one.

        `last` is the number of the latest kept events to yield. A notice `gap` reports that events
        after `after` may be missing, `dropped` that the follower is too slow, and `stopping` that the daemon stops.
        """
        self.followers += 1
        try:
            if 0 < after < self._lost_id:
                yield FeedNotice("gap", f"events after {after} may be missing: the daemon keeps the latest ones only")
            position = self._added
            stored = [self._read(number, event) for number, event in self._ring if number > after]
            kept = [event for event in stored if which.matches(event)]
            for event in kept if last is None else kept[max(0, len(kept) - last) :]:
                yield event
            if stays:
                async for item in self._follow_new(which, position):
                    yield item
        finally:
            self.followers -= 1

    async def _follow_new(self, which: EventFilter, position: int) -> AsyncGenerator[FeedEvent | FeedNotice]:
        while True:
            begins_at = self._added - len(self._ring)
            if position < begins_at:
                yield FeedNotice("dropped", f"you read too slowly: {begins_at - position} events were missed")
                return
            new, position = list(islice(self._ring, position - begins_at, None)), self._added
            for event in starmap(self._read, new):
                if which.matches(event):
                    yield event
            if position == self._added:
                if self._is_closed:
                    yield FeedNotice("stopping", "the daemon is stopping")
                    return
                await self._changed.wait()

    def close(self) -> None:
        """End all feeds, after the events so far: the daemon is about to stop."""
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _read(self, event_id: int, event: _EndEvent | FeedEvent) -> FeedEvent:
        return event if isinstance(event, FeedEvent) else self._to_feed_event(event, event_id)

    def _to_feed_event(self, event: Event, event_id: int) -> FeedEvent:
        line = to_log_line(event)
        fields = {name: value for name, value in line.fields.items() if name not in _OMITTED_FIELDS}
        if isinstance(event, _EndEvent):
            record = event.record
            fields |= {"model": record.model, "served": record.served, **_describe_client(record.origin)}
        elif isinstance(event, ServerStateChanged) and event.model:
            fields["model"] = event.model
        elif request_id := fields.get("request_id"):
            fields |= self._describe_origin(request_id)
        return FeedEvent(event_id, line.event, line.level, fields)


def _describe_client(origin: RequestOrigin) -> dict[str, str]:
    return {"client": origin.key_label, "program": origin.program}
