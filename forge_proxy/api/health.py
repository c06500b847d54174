"""`/health`, `/healthz` and `/readyz`. They never wake a model, and tell no secrets."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from forge_proxy._version import __version__
from forge_proxy.engine.ports import Backend

_OURS = {"x-forge-proxy": __version__}
"""By this a forge-proxy knows another one, and never takes it for a model server."""


class HealthChecks:
    """The three endpoints."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def health(self, _: Request) -> Response:
        """As llama-server has it: 200, or 503 with an error object while the model is loading or its server is down."""
        health = await self._backend.health()
        if health.status == "ok":
            return JSONResponse({"status": "ok"}, headers=_OURS)
        message = "Loading model" if health.status == "loading" else health.detail
        error = {"code": 503, "message": message, "type": "unavailable_error"}
        return JSONResponse({"error": error}, 503, headers=_OURS)

    async def alive(self, _: Request) -> Response:
        """The process answers, whatever the backend does."""
        return JSONResponse({"status": "ok"}, headers=_OURS)

    async def ready(self, _: Request) -> Response:
        """A request would be answered now."""
        health = await self._backend.health()
        ready = health.status == "ok"
        return JSONResponse({"status": health.status, "detail": health.detail}, 200 if ready else 503, headers=_OURS)
