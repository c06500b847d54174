"""OpenAI's Responses API: `POST /v1/responses` for the engine, and the routes for stored responses and token counts."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from forge_proxy.api.background.service import BackgroundResponses
from forge_proxy.api.bodies import LargeBodies, collect_slices, run_slices
from forge_proxy.api.conversations_openapi import CONVERSATION_PATHS, CONVERSATION_SCHEMAS
from forge_proxy.api.endpoint import read_json
from forge_proxy.api.error_responses import error_response
from forge_proxy.api.identity import owner_of, request_id_of
from forge_proxy.api.limits import memory_of
from forge_proxy.api.paging import read_page
from forge_proxy.api.response_lookup import ResponseLookup
from forge_proxy.api.response_storage import ResponseStorage
from forge_proxy.api.responses_openapi import PATHS, SCHEMAS
from forge_proxy.api.streaming import StreamErrorPolicy
from forge_proxy.api.surface import ReceivedRequest, Surface
from forge_proxy.core.errors import ForgeError, InvalidRequest
from forge_proxy.engine.answer import Engine
from forge_proxy.wire.clients.responses.encoder import DecodedResponsesRequest
from forge_proxy.wire.clients.responses.errors import encode_error
from forge_proxy.wire.clients.responses.stored_items import list_items

RESPONSES = Surface(
    name="responses",
    routes=("/v1/responses", "/responses"),
    prefixes=("/v1/responses", "/responses"),
    decode_request=DecodedResponsesRequest.decode,
    encode_error=encode_error,
    # Codex recognizes a full context only by this code in a `response.failed` event, and retries no 429.
    stream_errors=StreamErrorPolicy(has_event=True, codes=frozenset({"context_length_exceeded"}), agents=("codex",)),
    openapi_paths={**PATHS, **CONVERSATION_PATHS},
    openapi_schemas={**SCHEMAS, **CONVERSATION_SCHEMAS},
)


_MAX_DIGITS = 16


class ResponseEndpoints:
    """The endpoints for stored responses and for the size of a prompt."""

    def __init__(
        self,
        storage: ResponseStorage,
        engine: Engine,
        large_bodies: LargeBodies,
        background: BackgroundResponses | None = None,
        keepalive_seconds: float = 15.0,
    ) -> None:
        self._storage = storage
        self._engine = engine
        self._large_bodies = large_bodies
        self._responses = ResponseLookup(storage, background)
        self._keepalive_seconds = keepalive_seconds

    def add_routes(self, app: FastAPI) -> None:
        """Add the routes, with and without `/v1`."""
        for path in RESPONSES.routes:
            app.add_route(f"{path}/input_tokens", self.count_input, methods=["POST"])
            app.add_route(f"{path}/{{id}}", self.get, methods=["GET"])
            app.add_route(f"{path}/{{id}}", self.delete, methods=["DELETE"])
            app.add_route(f"{path}/{{id}}/input_items", self.list_input, methods=["GET"])
            app.add_route(f"{path}/{{id}}/cancel", self.cancel, methods=["POST"])

    async def count_input(self, request: Request) -> Response:
        """Return the number of tokens of a request's prompt; estimated if the model server cannot count."""
        headers = {"x-request-id": request_id_of(request)}
        try:
            body, size = await read_json(request, self._large_bodies)
            counted = {**body, "stream": False, "store": False, "background": False}
            received = ReceivedRequest(counted, size, owner_of(request), memory_of(request.scope))
            decoded = await self._storage.decode(received, self._large_bodies)
            prompt = await self._engine.measure(decoded.chat)
        except ForgeError as error:
            return error_response(error, request.scope, headers)
        headers |= {} if prompt.exact else {"x-forge-interventions": "estimated the tokens of the prompt"}
        return JSONResponse({"object": "response.input_tokens", "input_tokens": prompt.tokens}, headers=headers)

    async def get(self, request: Request) -> Response:
        """Return a stored response, or the state of one in the background; its events with `stream=true`."""
        headers = {"x-request-id": request_id_of(request)}
        owner = owner_of(request)
        try:
            if request.query_params.get("stream") == "true":
                return await self._follow(request, owner, headers)
            document = await self._responses.read(request.path_params["id"], owner)
        except ForgeError as error:
            return error_response(error, request.scope, headers)
        return Response(document, media_type="application/json", headers=headers)

    async def _follow(self, request: Request, owner: str, headers: Mapping[str, str]) -> Response:
        from forge_proxy.api.event_stream import sse_stream  # imports sse_starlette: slow, and rarely needed

        after = _read_number(request, "starting_after")
        events = await self._responses.follow(request.path_params["id"], owner, after)
        return sse_stream(events, headers, self._keepalive_seconds)

    async def delete(self, request: Request) -> Response:
        """Delete a stored response."""
        headers, response_id = {"x-request-id": request_id_of(request)}, request.path_params["id"]
        try:
            await self._responses.delete(response_id, owner_of(request))
        except ForgeError as error:
            return error_response(error, request.scope, headers)
        return JSONResponse({"id": response_id, "object": "response", "deleted": True}, headers=headers)

    async def list_input(self, request: Request) -> Response:
        """List the input items of a stored response, newest first unless `order=asc`."""
        headers = {"x-request-id": request_id_of(request)}
        try:
            limit, order = read_page(request)
            memory = memory_of(request.scope)
            items = await self._storage.input_items(request.path_params["id"], owner_of(request), memory)
            after = request.query_params.get("after")
            page = list_items(items, after=after, limit=limit, newest_first=order == "desc")
            body = b"".join(await run_slices(collect_slices(page)))
        except ForgeError as error:
            return error_response(error, request.scope, headers)
        return Response(body, media_type="application/json", headers=headers)

    async def cancel(self, request: Request) -> Response:
        """Cancel a response in the background, and return it; one that has ended stays as it is."""
        headers = {"x-request-id": request_id_of(request)}
        try:
            document = await self._responses.cancel(request.path_params["id"], owner_of(request))
        except ForgeError as error:
            return error_response(error, request.scope, headers)
        return Response(document, media_type="application/json", headers=headers)


def _read_number(request: Request, name: str) -> int:
    """Return the `sequence_number` that a query parameter has; -1 if it is missing. Raises `InvalidRequest`."""
    text = request.query_params.get(name)
    if text is None:
        return -1
    if not (text.isdecimal() and text.isascii() and len(text) < _MAX_DIGITS):
        raise InvalidRequest(name, "expected the sequence_number of an event")
    return int(text)
