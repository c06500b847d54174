"""The way past FastAPI for requests that come by the thousand: its router and the layers around it cost a small answer
more than we do, and they have nothing to do where an endpoint reads its own body and answers for its own errors.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

Endpoint: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


class FastPath:
    """Pure ASGI middleware, the innermost one: `POST`s to these paths go to their endpoints, all else goes on.

    The routes have to be there as well, for other methods and for the documentation.
    """

    def __init__(self, app: ASGIApp, endpoints: Mapping[str, Endpoint]) -> None:
        self._app = app
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the application do it."""
        endpoint = self._endpoints.get(scope["path"]) if scope["method"] == "POST" else None
        if endpoint is None:
            return await self._app(scope, receive, send)
        response = await endpoint(Request(scope, receive, send))
        return await response(scope, receive, send)
