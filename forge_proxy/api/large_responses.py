"""Sends large responses in slices: for a slow client, the server buffers one slice and no copy of the whole."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from forge_proxy.engine.memory import MemoryBudget

_SLICE = 256 * 1024


async def send_body(send: Send, body: bytes, *, more: bool) -> None:
    """Send a part of a response body. Before each slice, the server waits until the client has received most of the
    previous ones.
    """
    size = len(body)
    if size <= _SLICE:
        await send({"type": "http.response.body", "body": body, "more_body": more})
        return
    for at in range(0, size, _SLICE):
        is_last = at + _SLICE >= size
        await send({"type": "http.response.body", "body": body[at : at + _SLICE], "more_body": more or not is_last})


class LargeResponse(Response):
    """A whole response, sent in slices and charged to the memory budget until a slow client has received the last one.

    It is charged from its creation: call `discard` if it is not sent.
    """

    def __init__(self, body: bytes, headers: Mapping[str, str], memory: MemoryBudget) -> None:
        super().__init__(None, headers={**headers, "content-length": str(len(body))}, media_type="application/json")
        self._content = body
        self._memory = memory
        self._charged = len(body)
        memory.add(self._charged)

    def discard(self) -> None:
        """Release the memory of the response."""
        self._memory.release(self._charged)
        self._charged = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send_body(send, self._content, more=False)
        finally:
            self.discard()
