"""The events of a run as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from forge_proxy.api.identity import request_id_of
from forge_proxy.workflows.runs.errors import RunNotFound
from forge_proxy.workflows.runs.records import RunEvent

_ENDS = "\n"
"""Of lines: the library's own is that of Windows."""


def event_stream(request: Request, events: AsyncGenerator[RunEvent], keepalive_seconds: float) -> Response:
    """The response; a line that is silent for so long gets a comment."""
    from sse_starlette.sse import AppStatus, EventSourceResponse  # the start of a daemon needs none

    # Its own way of ending streams is a flag of the process, which stays set when another daemon is started in it. Ours
    # end with the service that feeds them.
    AppStatus.disable_automatic_graceful_drain()
    headers = {"x-request-id": request_id_of(request)}
    return EventSourceResponse(_written(events), headers=headers, ping=keepalive_seconds, sep=_ENDS)


async def _written(events: AsyncGenerator[RunEvent]) -> AsyncGenerator[dict[str, Any]]:
    async with aclosing(events):
        try:
            async for event in events:
                yield {"data": event.data, "event": event.type, "id": str(event.id)}
        except RunNotFound:  # it was deleted while it was being watched
            return
