"""Bypasses FastAPI for the most frequent requests. Its router and middleware would cost more than all other work of
the daemon for a short response, and an endpoint that reads its own body and handles its own errors does not need them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

Endpoint: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


class FastPathMiddleware:
    """Pure ASGI middleware, the innermost one: passes `POST`s to these paths to their endpoints.

    The routes must exist as well, for other methods and for error messages.
    """

    def __init__(self, app: ASGIApp, endpoints: Mapping[str, Endpoint]) -> None:
        self._app = app
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or pass it on to the application."""
        endpoint = self._endpoints.get(scope["path"]) if scope["method"] == "POST" else None
        if endpoint is None:
            return await self._app(scope, receive, send)
        response = await endpoint(Request(scope, receive, send))
        return await response(scope, receive, send)
