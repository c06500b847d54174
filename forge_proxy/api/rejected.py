"""Logs responses with a status of 4xx: which request, which status, and the code and field of the error.

Neither the message nor anything of the request is logged: both may hold what a client sent. What is refused before it
comes here (keys, origins, sizes) is logged as `refused` by `errors.refuse`.
"""

from __future__ import annotations

import logging

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forge_proxy.core.jsontypes import Json, is_object

_LOG = logging.getLogger("forge_proxy.api")
_LONGEST = 100
"""Characters of a path or a field that are logged."""
_LARGEST = 65_536
"""Bytes of a body in which the code of an error is looked for."""


class LogRejections:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does, and log the response if it rejects the request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def watch(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message if 400 <= message["status"] < 500 else None
            elif start is not None and message["type"] == "http.response.body":
                _log(scope, start, message.get("body", b""))
                start = None
            await send(message)

        await self._app(scope, receive, watch)


def _log(scope: Scope, start: Message, body: bytes) -> None:
    headers: list[tuple[bytes, bytes]] = start["headers"]
    request_id = next((value.decode("latin-1") for name, value in headers if name.lower() == b"x-request-id"), None)
    fields = {
        "event": "rejected",
        "request_id": request_id,
        "method": scope["method"],
        "path": scope["path"][:_LONGEST],
        "status": start["status"],
        **_error_in(body),
    }
    _LOG.warning("rejected %s %s: %s", fields["method"], fields["path"], fields["status"], extra={"fields": fields})


def _error_in(body: bytes) -> dict[str, str]:
    """The code and the field of an error."""
    try:
        read: Json = orjson.loads(body) if len(body) <= _LARGEST else None
    except orjson.JSONDecodeError:
        return {}
    error = read.get("error") if is_object(read) else None
    fields = {name: error.get(name) for name in ("code", "param")} if is_object(error) else {}
    return {name: value[:_LONGEST] for name, value in fields.items() if isinstance(value, str)}
