"""`/ui`: the dashboard, a page of static files that reads the admin API.

The files need no key: they contain no data. They need no build step, and load nothing from elsewhere.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

_FOLDER = Path(__file__).parent / "ui"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_SECURITY = {
    # The page has the origin of the admin API: no script but its own may run, and no other page may frame it.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src"
    " data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
FILES = {file.name: file.read_bytes() for file in sorted(_FOLDER.iterdir()) if file.suffix in _TYPES}
"""The files by their names; `index.html` is the page."""
DASHBOARD_PATHS = frozenset({"/ui", "/ui/", *(f"/ui/{name}" for name in FILES)})


def add_dashboard(app: FastAPI) -> None:
    """Add the page and its files to the application."""
    app.add_route("/ui", _page, methods=["GET"])
    app.add_route("/ui/", _page, methods=["GET"])
    app.add_route("/ui/{name}", _file, methods=["GET"])


async def _page(_: Request) -> Response:
    return _respond("index.html")


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    return _respond(name) if name in FILES else Response(status_code=404)


def _respond(name: str) -> Response:
    return Response(FILES[name], media_type=_TYPES[Path(name).suffix], headers=_SECURITY)
