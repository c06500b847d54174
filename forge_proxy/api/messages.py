"""Anthropic's Messages API: `POST /v1/messages` and `/v1/messages/count_tokens`, and their OpenAPI description."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from forge_proxy.api.bodies import SLICED, LargeBodies
from forge_proxy.api.endpoint import CLIENT_CLOSED_REQUEST, read_json
from forge_proxy.api.error_responses import error_response
from forge_proxy.api.identity import request_id_of
from forge_proxy.api.messages_openapi import PATHS, SCHEMAS
from forge_proxy.api.outcome_headers import intervention_headers
from forge_proxy.api.streaming import StreamErrorPolicy
from forge_proxy.api.surface import Surface
from forge_proxy.core.errors import ForgeError
from forge_proxy.engine.answer import Engine
from forge_proxy.wire.clients.messages.encoder import DecodedMessagesRequest
from forge_proxy.wire.clients.messages.errors import encode_error
from forge_proxy.wire.clients.messages.request import decode_request

MESSAGES = Surface(
    name="messages",
    routes=("/v1/messages",),
    prefixes=("/v1/messages",),
    decode_request=DecodedMessagesRequest.decode,
    encode_error=encode_error,
    stream_errors=StreamErrorPolicy(has_event=True),
    openapi_paths=PATHS,
    openapi_schemas=SCHEMAS,
)


class TokenCountEndpoint:
    """Counts the prompt tokens of a request without answering it."""

    def __init__(self, engine: Engine, large_bodies: LargeBodies) -> None:
        self._engine = engine
        self._large_bodies = large_bodies

    async def count(self, request: Request) -> Response:
        """Return the tokens of a request's messages, system prompt and tools."""
        headers = {"x-request-id": request_id_of(request)}
        try:
            body, size = await read_json(request, self._large_bodies)
            chat = await self._large_bodies.convert(size, partial(decode_request, body))
            chat = replace(chat, is_large=size > SLICED)
            prompt = await self._engine.measure(chat)
        except ForgeError as error:
            return error_response(error, request.scope, headers)
        except ClientDisconnect:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        notes = [f"dropped {what}" for what in chat.dropped]
        notes += [] if prompt.exact else ["estimated the tokens, which the model server does not count"]
        return JSONResponse({"input_tokens": prompt.tokens}, headers={**headers, **intervention_headers(notes)})
