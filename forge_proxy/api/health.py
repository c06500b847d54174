"""`/health`, `/healthz` and `/readyz`. They never load a model and reveal no secrets."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from forge_proxy._version import __version__
from forge_proxy.engine.ports import Backend

_HEADERS = {"x-forge-proxy": __version__}
"""Identifies a forge-proxy to another one, which would otherwise treat it as a model server."""


class HealthChecks:
    """The endpoints for load balancers and container engines."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def health(self, _: Request) -> Response:
        """Respond like llama-server: 200, or 503 with an error object if the model is loading or its server is down."""
        health = await self._backend.health()
        if health.status == "ok":
            return JSONResponse({"status": "ok"}, headers=_HEADERS)
        message = "Loading model" if health.status == "loading" else health.detail
        error = {"code": 503, "message": message, "type": "unavailable_error"}
        return JSONResponse({"error": error}, 503, headers=_HEADERS)

    async def alive(self, _: Request) -> Response:
        """Report that the daemon runs, whatever the state of the backend."""
        return JSONResponse({"status": "ok"}, headers=_HEADERS)

    async def ready(self, _: Request) -> Response:
        """Report whether a request would be answered now."""
        health = await self._backend.health()
        ready = health.status == "ok"
        return JSONResponse({"status": health.status, "detail": health.detail}, 200 if ready else 503, headers=_HEADERS)
