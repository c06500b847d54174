"""`GET /`: name, version, state and links, as a page for browsers and as JSON for other clients.

It needs no key, so it shows nothing else.
"""

from __future__ import annotations

from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from forge_proxy._version import __version__
from forge_proxy.api.docs import CONTENT_SECURITY, HEAD
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.engine.ports import Backend

_LINKS = {
    "/v1/chat/completions": "chat completions; clients need the base URL, which ends with /v1",
    "/v1/models": "the models and their context windows",
    "/ui": "the dashboard; may ask for an admin key",
    "/docs": "the API documentation",
    "/openapi.json": "the API as an OpenAPI document",
    "/metrics": "metrics for Prometheus; may need an admin key",
    "/health": "the health of the model server",
    "/admin/v1/status": "the state in detail; may need an admin key",
}
"""Listed if the application serves them."""
_POSTED = ("/v1/chat/completions",)


class HomePage:
    """The endpoint of the home page."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def show(self, request: Request) -> Response:
        """Return the page, or its content as JSON."""
        health = await self._backend.health()
        served = {getattr(route, "path", "") for route in request.app.routes}
        links: JsonObject = {path: text for path, text in _LINKS.items() if path in served}
        headers = {"vary": "Accept", "x-forge-proxy": __version__}
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(_page(health.status, links), headers={**headers, **CONTENT_SECURITY})
        home: JsonObject = {"name": "forge-proxy", "version": __version__, "status": health.status, "links": links}
        return JSONResponse(home, headers=headers)


def _page(status: str, links: JsonObject) -> str:
    rows = "".join(f"<tr><td>{_link(path)}<td>{escape(str(text))}" for path, text in links.items())
    return (
        f"{HEAD}<h1>forge-proxy {escape(__version__)}</h1><p>Model server: <code>{escape(status)}</code></p>"
        f"<table>{rows}</table>"
    )


def _link(path: str) -> str:
    """Return a link if a browser can open the path."""
    return f"<code>{escape(path)}</code>" if path in _POSTED else f'<a href="{escape(path)}">{escape(path)}</a>'
