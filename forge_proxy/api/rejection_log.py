"""Logs responses with a status of 4xx: which request, which status, and the code and field of the error.

Neither the message nor any content of the request is logged: both may contain what a client sent. Requests that are
refused before they reach this middleware (keys, origins, sizes) are logged as `refused` by `error_responses.refuse`.
"""

from __future__ import annotations

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forge_proxy.api.error_responses import find_sent_error

_LOG = logging.getLogger("forge_proxy.api")
_MAX_CHARS = 100
"""Characters of a path, code or field that are logged."""


class RejectionLogMiddleware:
    """Pure ASGI middleware that logs each response with which the application rejects a request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and log the response if its status is 4xx."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start" and 400 <= message["status"] < 500:
                _log(scope, message)
            await send(message)

        return await self._app(scope, receive, watch)


def _log(scope: Scope, start: Message) -> None:
    headers: list[tuple[bytes, bytes]] = start["headers"]
    request_id = next((value.decode("latin-1") for name, value in headers if name.lower() == b"x-request-id"), None)
    error = find_sent_error(scope)
    details = {"code": error.code, "param": error.param} if error else {}
    fields = {
        "event": "rejected",
        "request_id": request_id,
        "method": scope["method"],
        "path": scope["path"][:_MAX_CHARS],
        "status": start["status"],
        **{name: value[:_MAX_CHARS] for name, value in details.items() if value is not None},
    }
    _LOG.warning("rejected %s %s: %s", fields["method"], fields["path"], fields["status"], extra={"log_fields": fields})
