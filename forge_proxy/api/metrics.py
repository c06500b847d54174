"""`GET /metrics`: the metrics of the daemon, for Prometheus."""

from __future__ import annotations

from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response


class MetricsSource(Protocol):
    """Renders the metrics."""

    async def render(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics and their content type, in the format that the `accept` header asks for."""
        ...


class MetricsEndpoint:
    """The endpoint. It needs a key of the admin API, unless `server.metrics_public` is on."""

    def __init__(self, source: MetricsSource) -> None:
        self._source = source

    async def show(self, request: Request) -> Response:
        """Return the metrics in Prometheus' text format, or in OpenMetrics' if the client prefers it."""
        content, content_type = await self._source.render(request.headers.get("accept", ""))
        return Response(content, media_type=content_type)
