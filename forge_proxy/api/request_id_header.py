"""The `request-id` header: the name that `x-request-id` has in Anthropic's API."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_PREFIX = "/v1/messages"
_MODELS = "/v1/models"


class RequestIdHeaderMiddleware:
    """Pure ASGI middleware that adds the header to each response for a client of Anthropic's API, errors included.

    The outermost one. A header of the model server is kept.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http" or not _is_for_anthropic(scope):
            return await self._app(scope, receive, send)

        async def add_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers: list[tuple[bytes, bytes]] = list(message["headers"])
                ids = [value for name, value in headers if name.lower() == b"x-request-id"]
                if ids and all(name.lower() != b"request-id" for name, _ in headers):
                    message = {**message, "headers": [*headers, (b"request-id", ids[0])]}
            await send(message)

        return await self._app(scope, receive, add_header)


def _is_for_anthropic(scope: Scope) -> bool:
    path: str = scope["path"]
    if path == _PREFIX or path.startswith(f"{_PREFIX}/"):
        return True
    return path.startswith(_MODELS) and any(name == b"anthropic-version" for name, _ in scope["headers"])
