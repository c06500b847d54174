"""Limits on request bodies: size, values and memory. `api/protocol.py` limits the head while parsing it."""

from __future__ import annotations

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forge_proxy.api.access_denied import BodyTooLarge, CompressedBody, TooManyValues
from forge_proxy.api.bodies import LARGE, MAX_VALUES, measure_body
from forge_proxy.api.error_responses import refuse
from forge_proxy.core.errors import ForgeError
from forge_proxy.engine.memory import MemoryBudget, MemoryFull, RequestMemory

_COPIES = 3
"""Memory of a request, in body sizes: the received, parsed and forwarded forms, at most two of them at a time."""
_WIDE_COPIES = 6
"""The same for bodies with non-ASCII characters: one of them may make each character of a string take four bytes."""
_UNPARSED_COPIES = 2
"""The same for bodies that are relayed without being parsed: the received one, and its growth while it is received."""
_UPLOAD = 4 * 1024 * 1024
"""Memory of an upload to `/v1/files`, whose body is streamed to the store: at most two megabytes and a copy of them."""
_SCOPE_KEY = "forge_proxy.memory"


def memory_of(scope: Scope) -> RequestMemory:
    """Return what a request reserves in addition to its body; it counts nothing if no middleware limits bodies."""
    return scope.get(_SCOPE_KEY) or RequestMemory()


class BodyLimitMiddleware:
    """Pure ASGI middleware that responds with 413 to bodies over `limit` bytes, by Content-Length or while reading.

    It keeps at most `limit` bytes. The HTTP server reads and drops what the client still sends, so that the client
    reads the response. While the memory budget is exhausted, bodies are not read; small ones go first.
    """

    def __init__(self, app: ASGIApp, limit: int, memory: MemoryBudget) -> None:
        self._app = app
        self._limit = limit
        self._memory = memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with memory reserved for its body until it ends."""
        length, is_chunked = 0, False
        for name, value in scope["headers"]:
            if name == b"content-length":
                length = int(value)
            elif name in (b"transfer-encoding", b"content-encoding"):
                is_chunked = is_chunked or name == b"transfer-encoding"
                if value.lower() not in (b"chunked" if is_chunked else b"identity", b""):
                    return await refuse(CompressedBody(value.decode("latin-1")), scope, receive, send)
        is_upload = scope["path"] == "/v1/files" and scope["method"] == "POST"
        if is_upload:
            length, is_chunked = _UPLOAD // _COPIES, False
        elif length > self._limit:
            return await refuse(BodyTooLarge(self._limit), scope, receive, send)
        if not is_upload and (length > LARGE or is_chunked):
            return await self._take_large(length, scope, receive, send)
        size = _COPIES * length
        if size and not self._memory.take(size):  # without a body, such as a health check, a request never waits
            try:
                await self._memory.reserve(size)
            except ForgeError as error:
                return await refuse(error, scope, receive, send)
        scope[_SCOPE_KEY] = extra = RequestMemory(self._memory)
        try:
            return await self._app(scope, receive, send)
        finally:
            extra.release()
            self._memory.release(size)

    async def _take_large(self, length: int, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole body, then call the application with it as one message."""
        body = _LargeBody(self._memory, self._limit, is_parsed=not _holds_file(scope))
        scope[_SCOPE_KEY] = extra = RequestMemory(self._memory)
        try:
            try:
                message = await body.read(length, receive)
            except ForgeError as error:
                return await refuse(error, scope, receive, send)
            except ClientDisconnect:
                return None
            messages = [message]
            del message

            async def replay() -> Message:
                return messages.pop() if messages else await receive()

            return await self._app(scope, replay, send)
        finally:
            extra.release()
            body.release()


class _LargeBody:
    """A body that is being read, and its memory reservation."""

    def __init__(self, memory: MemoryBudget, limit: int, *, is_parsed: bool) -> None:
        self._memory = memory
        self._limit = limit
        self._is_parsed = is_parsed
        self._copies = _COPIES if is_parsed else _UNPARSED_COPIES
        self._reserved = 0

    async def read(self, length: int, receive: Receive) -> Message:
        """Read the body as one message. `length` is 0 if it is not known in advance.

        Raises `BodyTooLarge`, `TooManyValues`, `MemoryFull`, `TooLargeForMemory` or `ClientDisconnect`.
        """
        await self._reserve(self._copies * (length or LARGE))
        # Filled incrementally: joining 60 MB at the end would block the event loop.
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            piece = message.get("body", b"")
            body += piece
            size = len(body)
            if size > self._limit:
                raise BodyTooLarge(self._limit)
            if not length and size > LARGE and self._reserved == self._copies * LARGE:
                await self._reserve(self._copies * (self._limit - LARGE))  # the body may grow to the limit
            if not message.get("more_body", False):
                break
        if size > LARGE and self._is_parsed:
            await self._check(body)
        else:
            self._shrink(self._copies * size)
        return {"type": "http.request", "body": body, "more_body": False}

    def release(self) -> None:
        """Release the reserved memory."""
        self._memory.release(self._reserved)
        self._reserved = 0

    async def _check(self, body: bytearray) -> None:
        measure = await measure_body(body)
        if measure.values > MAX_VALUES:
            raise TooManyValues(MAX_VALUES)
        more = _WIDE_COPIES * len(body) - self._reserved
        if measure.is_wide and more > 0:
            if not self._memory.extend(more):
                raise MemoryFull(self._memory.limit)
            self._reserved += more
        self._shrink((_WIDE_COPIES if measure.is_wide else _COPIES) * len(body))

    async def _reserve(self, size: int) -> None:
        await self._memory.reserve(size)
        self._reserved += size

    def _shrink(self, size: int) -> None:
        if size < self._reserved:
            self._memory.release(self._reserved - size)
            self._reserved = size


def _holds_file(scope: Scope) -> bool:
    """Whether the body of a request is a file, which is relayed without being parsed."""
    path = scope["path"]
    if path.startswith("/api/blobs/"):
        return True
    kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    return path.startswith("/v1/audio/") and kind.startswith(b"multipart/")
