"""How much of a request's body is taken. The head is limited where it is parsed, in `api/protocol.py`."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forge_proxy.api.errors import refuse
from forge_proxy.api.refusals import BodyTooLarge


class LimitBody:
    """Pure ASGI middleware: a body that says it is too large is a 413 at once, one that turns out so when it does.

    Of either no more than `limit` bytes are kept. What the client still sends is read and dropped by the HTTP server,
    so that the client comes to read the answer.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, with its body counted where nothing says how long it is."""
        for name, value in scope["headers"]:
            if name == b"content-length" and int(value) > self._limit:
                return await refuse(BodyTooLarge(self._limit), scope, receive, send)
            if name == b"transfer-encoding":
                receive = self._counted(receive)
        return await self._app(scope, receive, send)

    def _counted(self, receive: Receive) -> Receive:
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._limit:
                raise BodyTooLarge(self._limit)
            return message

        return counted
