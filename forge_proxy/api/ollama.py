"""Ollama's API for programs that speak only that: `/api/chat` and `/api/generate`, which the engine answers.

`api/ollama_models.py` and `api/ollama_embeddings.py` have the other routes.
"""

from __future__ import annotations

import time

import orjson
from starlette.requests import Request
from starlette.responses import Response

from forge_proxy.api.disconnect import cancel_on_disconnect
from forge_proxy.api.endpoint import SurfaceEndpoint
from forge_proxy.api.identity import client_of, request_id_of
from forge_proxy.api.ollama_description import CHAT_PATHS, GENERATE_PATHS, OLLAMA_PATHS, OLLAMA_SCHEMAS
from forge_proxy.api.relay import RelayEndpoint
from forge_proxy.api.surface import DecodedRequest, Surface
from forge_proxy.wire.clients.ollama.errors import encode_error
from forge_proxy.wire.clients.ollama.request import DecodedOllamaRequest, decode_chat, decode_generate
from forge_proxy.wire.relay import JsonBody, RawCall

OLLAMA_CHAT = Surface(
    name="ollama_chat",
    routes=("/api/chat",),
    prefixes=("/api",),
    decode_request=decode_chat,
    encode_error=encode_error,
    openapi_paths=CHAT_PATHS,
    openapi_schemas=OLLAMA_SCHEMAS,
)
OLLAMA_GENERATE = Surface(
    name="ollama_generate",
    routes=("/api/generate",),
    prefixes=("/api",),
    decode_request=decode_generate,
    encode_error=encode_error,
    openapi_paths={**GENERATE_PATHS, **OLLAMA_PATHS},
)
OLLAMA_SURFACES = (OLLAMA_CHAT, OLLAMA_GENERATE)


class OllamaEndpoint(SurfaceEndpoint):
    """Answers `/api/chat` or `/api/generate`. An Ollama answers itself what has no form as a chat completion."""

    async def _prepare(self, request: Request, decoded: DecodedRequest) -> DecodedRequest | Response:
        """See `SurfaceEndpoint`. Loads or unloads a model; relays a prompt without the chat template to an Ollama."""
        assert isinstance(decoded, DecodedOllamaRequest)  # noqa: S101  # from the codec of these surfaces
        if self._engine.relay.kind == "ollama":
            if decoded.action == "answer" and not decoded.unsupported:
                return decoded.with_clock(time.monotonic_ns)
            body = JsonBody(orjson.dumps(decoded.source), decoded.source)
            call = RawCall("POST", request.scope["path"], body, "application/json")
            headers = {"x-request-id": request_id_of(request)}
            return RelayEndpoint(self._engine, self._large_bodies).answer(request, call, headers)
        if decoded.action == "answer":
            return decoded.adapt_to_other_backend().with_clock(time.monotonic_ns)
        return await self._load(request, decoded)

    async def _load(self, request: Request, decoded: DecodedOllamaRequest) -> Response:
        """Wait until the model is loaded. Only an Ollama unloads one on request; others keep it."""
        if decoded.action == "load":
            async with cancel_on_disconnect(request.receive):
                await self._engine.relay.load(decoded.chat.model, client=client_of(request))
        media_type = "application/x-ndjson" if decoded.chat.stream else "application/json"
        headers = {"x-request-id": request_id_of(request)}
        return Response(decoded.encode_loaded(int(time.time())), media_type=media_type, headers=headers)
