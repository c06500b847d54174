"""Answers the lines of batches like requests of clients: by the same routes, without a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import orjson
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Scope

from forge_proxy.api.error_responses import find_sent_error
from forge_proxy.api.identity import ON_PROMPT, OWNER
from forge_proxy.api.limits import BodyLimitMiddleware
from forge_proxy.batches.ports import LineFailure, LineRequest, LineResponse
from forge_proxy.engine.memory import MemoryBudget

_OLLAMA = "/api/"
"""Paths of an API that streams unless a request says otherwise."""
_UNAVAILABLE = frozenset({
    "backend_unreachable", "backend_restarting", "backend_loading", "backend_down", "model_not_loaded", "memory_full",
    "stopping", "store_unavailable", "rate_limit_exceeded",
})  # fmt: skip
"""Codes of errors that last until the model server, or the daemon, is available again."""
_MAY_PASS = (408, 409, 429)
"""Statuses below 500 of requests that may succeed if they are sent again."""


class BatchLineExecutor:
    """Sends requests to the routes of an application (`batches.ports.LineExecutor`). `attach` sets the application."""

    def __init__(self) -> None:
        self._app: FastAPI | None = None
        self._limited: ASGIApp | None = None
        self.endpoints: Collection[str] = ()

    def attach(self, app: FastAPI, endpoints: Collection[str], limit: int, memory: MemoryBudget) -> None:
        """Set the application, the largest body in bytes, and the budget to which bodies are charged."""
        self._app = app
        self.endpoints = endpoints
        self._limited = BodyLimitMiddleware(app.router, limit, memory)

    async def send(self, request: LineRequest) -> LineResponse:
        """See `LineExecutor`."""
        assert self._limited is not None  # noqa: S101  # jobs start once the daemon is built
        body = _without_stream(request.body) if request.endpoint.startswith(_OLLAMA) else request.body
        scope = self._scope_of(request, len(body))
        connection = _NoConnection(body)
        await self._limited(scope, connection.receive, connection.send)
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # the endpoint treated the cancellation as a shutdown
            raise asyncio.CancelledError
        failure = _classify(scope, connection)
        return LineResponse(connection.status, bytes(connection.body), failure)

    def _scope_of(self, request: LineRequest, size: int) -> Scope:
        headers = {
            "content-type": "application/json",
            "content-length": str(size),
            "user-agent": "forge-proxy-batch",
            "x-request-id": request.request_id,
            "x-forge-priority": "background",
        }
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": request.endpoint,
            "raw_path": request.endpoint.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": None,
            "server": None,
            "app": self._app,
            OWNER: request.owner,
            ON_PROMPT: request.on_prompt,
        }


class _NoConnection:
    """The ASGI callables of a request that no client waits for."""

    def __init__(self, body: bytes) -> None:
        self._request = [body]
        self.status = 500
        self.headers: dict[bytes, bytes] = {}
        self.body = bytearray()

    async def receive(self) -> Message:
        """Return the body; later calls wait, as no client disconnects."""
        if self._request:
            return {"type": "http.request", "body": self._request.pop(), "more_body": False}
        await asyncio.get_running_loop().create_future()
        raise AssertionError("unreachable: nothing sets the future")

    async def send(self, message: Message) -> None:
        """Collect the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = dict(message.get("headers", ()))
        else:
            self.body += message.get("body", b"")


def _classify(scope: Scope, connection: _NoConnection) -> LineFailure | None:
    if connection.status < 400:
        return None
    error = find_sent_error(scope)
    if error is not None and error.code in _UNAVAILABLE:
        return "unavailable"
    if connection.headers.get(b"x-should-retry") == b"false":
        return "permanent"
    return "transient" if connection.status in _MAY_PASS or connection.status >= 500 else "permanent"


def _without_stream(body: bytes) -> bytes:
    return orjson.dumps({**orjson.loads(body), "stream": False})
