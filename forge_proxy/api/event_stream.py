"""Streams the events of jobs as server-sent events. Slow to import: only what streams them does so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response

from forge_proxy.api.identity import request_id_of
from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.core.jobs.records import JobEvent

_LINE_END = "\n"
"""The library's default is CRLF."""


def event_stream(request: Request, events: AsyncGenerator[JobEvent], keepalive_seconds: float) -> Response:
    """Return the response. It sends a comment after each `keepalive_seconds` of silence."""
    headers = {"x-request-id": request_id_of(request)}
    return _EventStream(_to_messages(events), headers=headers, ping=keepalive_seconds, sep=_LINE_END)


def sse_stream(events: AsyncGenerator[bytes], headers: Mapping[str, str], keepalive_seconds: float) -> Response:
    """Return the response that sends encoded events, and a comment after each `keepalive_seconds` of silence."""
    return _EventStream(events, headers=headers, ping=keepalive_seconds, sep=_LINE_END)


class _EventStream(EventSourceResponse):
    @staticmethod
    async def _listen_for_exit_signal() -> None:
        """The library ends every stream of the process once any uvicorn server in it has exited, also a server that is
        not the daemon's. The service that feeds the streams ends them instead.
        """
        await asyncio.Event().wait()


async def _to_messages(events: AsyncGenerator[JobEvent]) -> AsyncGenerator[dict[str, Any]]:
    async with aclosing(events):
        try:
            async for event in events:
                message = {"data": event.data, "event": event.type}
                yield {**message, "id": str(event.id)} if event.id else message  # those of sub-tasks have none
        except JobNotFound:  # deleted while its events were streamed
            return
