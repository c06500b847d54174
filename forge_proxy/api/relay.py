"""Routes that only the model server implements: completions of a prompt, embeddings, audio, llama-server's own.

The daemon checks keys and limits, waits for a slot, and replaces an alias by the model's name. Bodies and responses are
passed on unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from forge_proxy.api.access_denied import NotJson
from forge_proxy.api.bodies import LARGE, LargeBodies, read_whole, run_slices
from forge_proxy.api.disconnect import cancel_on_disconnect
from forge_proxy.api.endpoint import CLIENT_CLOSED_REQUEST
from forge_proxy.api.error_responses import error_response
from forge_proxy.api.identity import client_of, origin_of, request_id_of
from forge_proxy.api.openapi import error_responses
from forge_proxy.core.errors import ForgeError, InvalidRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.ports import RawResponse
from forge_proxy.wire.clients.body import read_body
from forge_proxy.wire.relay import FormBody, JsonBody, OpaqueBody, RawBytes, RawCall, RelayedBody

MODEL_ROUTES = {
    "/v1/completions": "Complete a prompt",
    "/v1/embeddings": "Compute embeddings",
    "/v1/rerank": "Rank documents by their relevance to a query",
    "/tokenize": "Tokenize a text",
    "/detokenize": "Turn tokens into text",
    "/apply-template": "Apply the model's chat template without generating",
    "/infill": "Complete code between a prefix and a suffix",
}
STATE_ROUTES = {"/props": "Show the properties of a llama-server", "/slots": "Show the slots of a llama-server"}
"""Routes that are read. They wait for no slot: they show how busy the model server is."""
AUDIO = "/v1/audio"
_AUDIO_ROUTE = re.compile(rf"{AUDIO}(?:/[A-Za-z0-9_-]+){{1,4}}")
FORWARDED_HEADERS = ("content-type", "content-disposition", "retry-after", "retry-after-ms")
"""Headers of a response that reach the client. Others are of the connection, cookies, or the model server's own rules
for web pages."""


class RelayEndpoint:
    """Relays requests through one engine."""

    def __init__(self, engine: Engine, large_bodies: LargeBodies) -> None:
        self._engine = engine
        self._large_bodies = large_bodies

    def add_routes(self, app: FastAPI) -> None:
        """Add all routes to the application."""
        for path in MODEL_ROUTES:
            app.add_route(path, self.run, methods=["POST"])
        app.add_route(f"{AUDIO}/{{rest:path}}", self.run_audio, methods=["POST"])
        for path in STATE_ROUTES:
            app.add_route(path, self.read_state, methods=["GET"])

    async def run(self, request: Request) -> Response:
        """Relay a request for which the model server runs its model."""
        return await self.relay(request, self._read_json)

    async def run_audio(self, request: Request) -> Response:
        """Relay a request for audio: text to speak, or a form with a recording."""
        return await self.relay(request, self._read_audio)

    async def read_state(self, request: Request) -> Response:
        """Relay a request that only reads the state of the model server."""
        return await self.relay(request, None, is_read=True, runs_model=False)

    async def relay(
        self,
        request: Request,
        read: Callable[[Request, RawBytes], Any] | None,
        *,
        is_read: bool = False,
        runs_model: bool = True,
        after: Callable[[], None] | None = None,
    ) -> Response:
        """Relay a request, with the body that `read` returns. Calls `after` if the model server reports success."""
        headers = {"x-request-id": request_id_of(request)}
        try:
            await self._engine.turns.take()
            raw = await read_whole(request.receive)
            body: RelayedBody = OpaqueBody(raw) if read is None else await read(request, raw)
        except ForgeError as error:
            return error_response(error, request.scope, headers)
        except ClientDisconnect:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        call = RawCall(
            request.method,
            request.scope["path"],
            body,
            request.headers.get("content-type", ""),
            request.scope["query_string"].decode("latin-1"),
            runs_model=runs_model,
            is_read=is_read,
        )
        return self.answer(request, call, headers, after)

    def answer(
        self, request: Request, call: RawCall, headers: Mapping[str, str], after: Callable[[], None] | None = None
    ) -> Response:
        """Return the response to a call, which is made when the response is sent."""
        try:
            origin = origin_of(request, request.scope["path"])
        except InvalidRequest as error:
            return error_response(error, request.scope, headers)
        opened = self._engine.relay.open(
            call, request_id=headers["x-request-id"], client=client_of(request), origin=origin
        )
        return RelayedResponse(opened, headers, after)

    async def read_object(self, request: Request, raw: RawBytes) -> JsonObject:
        """Return the JSON object of a request body. Raises `InvalidRequest` or `NotJson`."""
        if request.headers.get("content-type", "").startswith("multipart/"):
            raise NotJson
        return await self._large_bodies.parse([raw]) if len(raw) > LARGE else read_body(raw)

    async def _read_json(self, request: Request, raw: RawBytes) -> JsonBody:
        return JsonBody(raw, await self.read_object(request, raw))

    async def _read_audio(self, request: Request, raw: RawBytes) -> RelayedBody:
        if not _AUDIO_ROUTE.fullmatch(request.scope["path"]):
            raise InvalidRequest("path", f"expected a route such as {AUDIO}/transcriptions")
        content_type = request.headers.get("content-type", "")
        if content_type.startswith("multipart/"):
            return await run_slices(FormBody.read(raw, content_type))
        return await self._read_json(request, raw)


class RelayedResponse(Response):
    """The response of the model server, sent as it arrives: with its status, also one of an error."""

    def __init__(
        self,
        opened: AbstractAsyncContextManager[RawResponse],
        headers: Mapping[str, str],
        after: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(headers=dict(headers))
        self._opened = opened
        self._extra_headers = headers
        self._after = after
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response until it ends or the client disconnects."""
        try:
            async with cancel_on_disconnect(receive), self._opened as response:
                await self._start(response, send)
                async for piece in response.pieces():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                if self._after is not None and response.status < 400:
                    self._after()
                await send({"type": "http.response.body", "body": b""})
        except ForgeError as error:
            if not self._started:
                await error_response(error, scope, self._extra_headers)(scope, receive, send)
            # Otherwise the response stays incomplete: the server closes the connection, so the client sees an error.

    async def _start(self, response: RawResponse, send: Send) -> None:
        self._started = True
        forwarded = {name: value for name in FORWARDED_HEADERS if (value := response.headers.get(name)) is not None}
        pairs = {**self._extra_headers, **forwarded, "cache-control": "no-cache"}
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs.items()]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})


def _describe(method: str, name: str, summary: str) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "description": "Relayed to the model server: request and response are its own.",
        "tags": ["relayed"],
        "responses": {
            "200": {"description": "The model server's response."},
            **error_responses(401, 403, 404, 501, 502, 503, 504),
        },
    }
    if method == "post":
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
        operation["responses"] |= error_responses(400, 408, 413, 415, 429)
    return {method: operation}


RELAY_PATHS: dict[str, Any] = {
    **{
        path: _describe("post", path.strip("/").replace("/", "_").replace("-", "_"), summary)
        for path, summary in MODEL_ROUTES.items()
    },
    f"{AUDIO}/{{route}}": _describe("post", "v1_audio", "Speak a text, or transcribe or translate a recording"),
    **{path: _describe("get", path.strip("/"), summary) for path, summary in STATE_ROUTES.items()},
}
RELAY_PATHS[f"{AUDIO}/{{route}}"]["post"]["parameters"] = [
    {"name": "route", "in": "path", "required": True, "description": "`speech`, `transcriptions` or `translations`.",
     "schema": {"type": "string", "minLength": 1}},
]  # fmt: skip
