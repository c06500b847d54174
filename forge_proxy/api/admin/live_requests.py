"""`/admin/v1/requests/stream` and `…/{request}/cancel`: the requests under way."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

import orjson
from fastapi import Path, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from forge_proxy.api.admin.ports import RequestNotActive, check_followers
from forge_proxy.api.identity import request_id_of
from forge_proxy.engine.active_requests import ActiveRequests


class CancelledRequests(BaseModel):
    """The requests that were cancelled."""

    request_id: str
    cancelled: int = Field(description="How many requests under way had this id: clients may use it more than once.")


class LiveRequestEndpoints:
    """The endpoints of requests under way."""

    def __init__(self, active: ActiveRequests, keepalive_seconds: float) -> None:
        self._active = active
        self._keepalive_seconds = keepalive_seconds

    async def stream(self, request: Request) -> Response:
        """Stream what the requests under way are doing as server-sent events, up to four times a second.

        Each event has all of them: the oldest 200 in `requests`, and their number in `count`. The event `stopping` is
        the last one: the daemon stops.
        """
        check_followers(self._active)
        from forge_proxy.api.event_stream import sse_stream  # imports sse_starlette: slow, and rarely needed

        return sse_stream(self._encode(), {"x-request-id": request_id_of(request)}, self._keepalive_seconds)

    async def cancel(
        self, request: Annotated[str, Path(max_length=140, description="The id of a request under way.")]
    ) -> CancelledRequests:
        """Cancel a request under way, in any phase. Its client gets a 503, `request_cancelled`, and does not retry."""
        cancelled = self._active.cancel(request)
        if not cancelled:
            raise RequestNotActive(request)
        return CancelledRequests(request_id=request, cancelled=cancelled)

    async def _encode(self) -> AsyncGenerator[bytes]:
        async with aclosing(self._active.follow()) as snapshots:
            async for snapshot in snapshots:
                yield b"data: %b\n\n" % orjson.dumps({"requests": snapshot, "count": self._active.count})
        yield b'event: stopping\ndata: {"message":"the daemon is stopping"}\n\n'
