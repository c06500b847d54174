"""`POST /api/embed` and `/api/embeddings` of Ollama's API, over the embeddings of any model server."""

from __future__ import annotations

import time
from collections.abc import Callable

import orjson
from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from forge_proxy.api.bodies import LARGE, read_whole
from forge_proxy.api.disconnect import cancel_on_disconnect
from forge_proxy.api.endpoint import CLIENT_CLOSED_REQUEST
from forge_proxy.api.error_responses import error_response
from forge_proxy.api.identity import client_of, origin_of, request_id_of
from forge_proxy.api.large_responses import LargeResponse
from forge_proxy.api.outcome_headers import describe_dropped
from forge_proxy.api.relay import RelayEndpoint
from forge_proxy.core.backend_errors import BackendBroke, BackendError, ResponseTooLarge
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.memory import MemoryBudget, ResponseMemory
from forge_proxy.engine.ports import RawResponse
from forge_proxy.wire.clients.ollama.embeddings import DecodedEmbedRequest, decode_embed, decode_embeddings
from forge_proxy.wire.relay import JsonBody, RawCall

_MAX_RESPONSE = 64 * 1024 * 1024
"""Maximum bytes of embeddings that are converted."""
_PARSED = 4
"""Memory of a response in its sizes: the bytes, and the numbers, of which each takes three times its digits."""


class OllamaEmbeddings:
    """The endpoints for embeddings. An Ollama answers them itself; others have `/v1/embeddings`."""

    def __init__(self, engine: Engine, relay: RelayEndpoint, memory: MemoryBudget) -> None:
        self._engine = engine
        self._relay = relay
        self._memory = memory

    def add_routes(self, app: FastAPI) -> None:
        """Add the routes to the application."""
        app.add_route("/api/embed", self.embed, methods=["POST"])
        app.add_route("/api/embeddings", self.embeddings, methods=["POST"])

    async def embed(self, request: Request) -> Response:
        """Answer `/api/embed`."""
        return await self._answer(request, decode_embed)

    async def embeddings(self, request: Request) -> Response:
        """Answer `/api/embeddings`, the older route for a single text."""
        return await self._answer(request, decode_embeddings)

    async def _answer(self, request: Request, decode: Callable[[JsonObject], DecodedEmbedRequest]) -> Response:
        if self._engine.relay.kind == "ollama":
            return await self._relay.run(request)
        headers = {"x-request-id": request_id_of(request)}
        try:
            decoded = decode(await self._relay.read_object(request, await read_whole(request.receive)))
            async with cancel_on_disconnect(request.receive):
                return await self._convert(request, decoded, headers)
        except ForgeError as error:
            return error_response(error, request.scope, headers)
        except ClientDisconnect:
            pass
        return Response(status_code=CLIENT_CLOSED_REQUEST)

    async def _convert(self, request: Request, decoded: DecodedEmbedRequest, headers: dict[str, str]) -> Response:
        began = time.monotonic_ns()
        body = JsonBody(orjson.dumps(decoded.body), decoded.body)
        call = RawCall("POST", "/v1/embeddings", body, "application/json")
        origin = origin_of(request, request.scope["path"])
        opened = self._engine.relay.open(
            call, request_id=headers["x-request-id"], client=client_of(request), origin=origin
        )
        with ResponseMemory(self._memory) as memory:
            async with opened as response:
                received = await self._read(response, memory)
            if response.status >= 400:
                raise BackendError(self._engine.relay.url, response.status, received)
            try:
                encoded = decoded.encode_response(received, time.monotonic_ns() - began)
            except ValueError as exc:
                raise BackendBroke(self._engine.relay.url, str(exc), is_passing=False) from exc
        headers |= describe_dropped(decoded.dropped)
        if len(encoded) > LARGE:
            return LargeResponse(encoded, headers, self._memory)
        return Response(encoded, media_type="application/json", headers=headers)

    async def _read(self, response: RawResponse, memory: ResponseMemory) -> Json:
        """Read a response as JSON, with memory reserved for it."""
        body = bytearray()
        async for piece in response.pieces():
            body += piece
            if len(body) > _MAX_RESPONSE:
                raise ResponseTooLarge(self._engine.relay.url, _MAX_RESPONSE)
            await memory.add(Chunk(pending_bytes=_PARSED * len(body)))
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            return body.decode("utf-8", "replace")
