"""Streams the events of a run as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from forge_proxy.api.identity import request_id_of
from forge_proxy.workflows.runs.errors import RunNotFound
from forge_proxy.workflows.runs.records import RunEvent

_LINE_END = "\n"
"""The library's default is CRLF."""


def event_stream(request: Request, events: AsyncGenerator[RunEvent], keepalive_seconds: float) -> Response:
    """Return the response. It sends a comment after each `keepalive_seconds` of silence."""
    from sse_starlette.sse import AppStatus, EventSourceResponse  # slow to import, and not needed at startup

    # The library ends streams by a process-wide flag, which stays set for the next daemon in the same process. The
    # service that feeds the streams ends them instead.
    AppStatus.disable_automatic_graceful_drain()
    headers = {"x-request-id": request_id_of(request)}
    return EventSourceResponse(_to_messages(events), headers=headers, ping=keepalive_seconds, sep=_LINE_END)


async def _to_messages(events: AsyncGenerator[RunEvent]) -> AsyncGenerator[dict[str, Any]]:
    async with aclosing(events):
        try:
            async for event in events:
                yield {"data": event.data, "event": event.type, "id": str(event.id)}
        except RunNotFound:  # deleted while its events were streamed
            return
