"""`/admin/v1/events`: what happens in the daemon, as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated, Any, Protocol

import orjson
from fastapi import Query, Request
from starlette.responses import Response

from forge_proxy.api.admin.event_position import FEED_AFTER, LAST_EVENT_ID, MAX_FEED_ID, read_position
from forge_proxy.api.admin.ports import Followable, check_followers
from forge_proxy.api.identity import request_id_of
from forge_proxy.core.event_feed import EventFilter, EventLevel, EventName, FeedEvent, FeedNotice

_MAX_KEPT = 10_000


class EventSource(Followable, Protocol):
    """The latest events of the daemon and the new ones."""

    def follow(
        self, which: EventFilter, *, after: int = 0, last: int | None = None, stays: bool = True
    ) -> AsyncGenerator[FeedEvent | FeedNotice]:
        """Yield the latest events with an id greater than `after`, `last` at most; with `stays` also each new one."""
        ...


class EventEndpoints:
    """The endpoint of `/events`."""

    def __init__(self, source: EventSource, keepalive_seconds: float) -> None:
        self._source = source
        self._keepalive_seconds = keepalive_seconds

    async def stream(
        self,
        request: Request,
        event: Annotated[list[EventName] | None, Query(description="Only events of this name. Repeatable.")] = None,
        model: Annotated[str | None, Query(max_length=256, description="Only events of this model.")] = None,
        client: Annotated[
            str | None,
            Query(max_length=128, description="Only events of requests with this key label, or of this program."),
        ] = None,
        request_id: Annotated[str | None, Query(max_length=140, description="Only events of this request.")] = None,
        level: Annotated[EventLevel, Query(description="Only events of this level and above.")] = "info",
        last: Annotated[
            int | None,
            Query(ge=0, le=_MAX_KEPT, description="Begin with this many of the latest stored events; default: all."),
        ] = None,
        follow: Annotated[bool, Query(description="Whether new events follow the stored ones.")] = True,
        after: FEED_AFTER = 0,
        last_event_id: LAST_EVENT_ID = None,
    ) -> Response:
        """Stream the events of the daemon as server-sent events: first the stored ones, then each new one.

        The data of an event is the JSON line of the log. A client that was disconnected continues after the last id
        that it received, whatever `last` is; ids grow across restarts. Messages of the stream itself have a type and no
        id: `gap` (events may be missing), `dropped` (the client reads too slowly; the stream ends) and `stopping` (the
        daemon stops).
        """
        after = read_position(after, last_event_id, MAX_FEED_ID)
        last = None if int(last_event_id or 0) else last
        check_followers(self._source)
        from forge_proxy.api.event_stream import sse_stream  # imports sse_starlette: slow, and rarely needed

        which = EventFilter(frozenset(event or ()), model, client, request_id, level)
        items = self._source.follow(which, after=after, last=last, stays=follow)
        return sse_stream(_encode(items), {"x-request-id": request_id_of(request)}, self._keepalive_seconds)


async def _encode(items: AsyncGenerator[FeedEvent | FeedNotice]) -> AsyncGenerator[bytes]:
    async with aclosing(items):
        async for item in items:
            if isinstance(item, FeedEvent):
                yield b"id: %d\ndata: %b\n\n" % (item.id, _to_json(_to_line(item)))
            else:
                yield b"event: %b\ndata: %b\n\n" % (item.kind.encode(), orjson.dumps({"message": item.message}))


def _to_json(line: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(line, default=str)
    except TypeError:  # model servers report counts of any size, and orjson rejects integers of more than 64 bits
        return json.dumps(line, default=str).encode()


def _to_line(event: FeedEvent) -> dict[str, Any]:
    at = datetime.fromtimestamp(event.seconds, UTC).isoformat(timespec="microseconds").removesuffix("+00:00")
    return {"timestamp": f"{at}Z", "level": event.level, "event": event.name, **event.fields}
