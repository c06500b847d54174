"""The endpoint of a client API: reads a request, has the engine answer it, and sends the response streamed or whole."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from forge_proxy.api.access_denied import NotJson
from forge_proxy.api.bodies import LARGE, SLICED, LargeBodies, read_whole
from forge_proxy.api.config import ServerConfig
from forge_proxy.api.disconnect import cancel_on_disconnect
from forge_proxy.api.error_responses import error_response
from forge_proxy.api.identity import ON_PROMPT, client_of, origin_of, owner_of, request_id_of
from forge_proxy.api.large_responses import LargeResponse
from forge_proxy.api.limits import memory_of
from forge_proxy.api.outcome_headers import compaction_headers, dropped_headers, outcome_headers
from forge_proxy.api.prompt_size import PromptSizeEncoder, with_prompt_size
from forge_proxy.api.streaming import StreamingAnswer
from forge_proxy.api.surface import DecodedRequest, ReceivedRequest, Surface, SurfaceStorage
from forge_proxy.core.errors import ForgeError, InvalidRequest
from forge_proxy.core.guardrails import GuardPolicy, read_switches
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.engine.answer import AnswerEvent, Engine
from forge_proxy.engine.events import ContextCompacted
from forge_proxy.engine.memory import MemoryBudget
from forge_proxy.wire.clients.body import read_body
from forge_proxy.wire.clients.collector import ResponseCollector

_FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
CLIENT_CLOSED_REQUEST = 499
"""nginx's status for a client that has disconnected; nobody receives it."""


@dataclass(frozen=True, slots=True)
class EndpointDeps:
    """The dependencies that the endpoints of all client APIs share."""

    engine: Engine
    config: ServerConfig
    memory: MemoryBudget
    large_bodies: LargeBodies


class SurfaceEndpoint:
    """Answers the `POST` requests of one client API."""

    def __init__(self, surface: Surface, deps: EndpointDeps, storage: SurfaceStorage | None = None) -> None:
        self._surface = surface
        self._engine = deps.engine
        self._memory = deps.memory
        self._large_bodies = deps.large_bodies
        self._config = deps.config
        self._storage = storage

    async def create(self, request: Request) -> Response:
        """Answer one request."""
        request_id = request_id_of(request)
        headers = {"x-request-id": request_id}
        try:
            await self._engine.turns.take()  # hundreds may come at one time
            decoded, size = await self._read(request)
            decoded = await self._prepare(request, decoded)
            if isinstance(decoded, Response):
                return decoded
            chat = replace(decoded.chat, is_large=True) if size > SLICED else decoded.chat
            policy = narrow(self._engine.policies.guardrails, request.headers.get("x-forge-guardrails"))
            origin = origin_of(request, self._surface.name, chat.body.get("service_tier"))
            answer = self._engine.answer(chat, policy, request_id=request_id, client=client_of(request), origin=origin)
            if chat.stream:
                encoder = decoded.build_stream_encoder(request_id, int(time.time()))
                if isinstance(encoder, PromptSizeEncoder):
                    answer = with_prompt_size(answer, partial(self._engine.measure, chat), encoder)
                save = partial(self._storage.save, decoded, encoder) if self._storage else None
                headers |= dropped_headers(chat)
                return StreamingAnswer(answer, encoder, self._config, headers, self._surface.stream_errors, save)
            if (on_prompt := request.scope.get(ON_PROMPT)) is not None:
                answer = call_at_first_chunk(answer, on_prompt)
            async with cancel_on_disconnect(request.receive):
                return await self._answer_whole(answer, decoded, request_id, headers)
        except ForgeError as error:
            return error_response(error, request.scope, headers)
        except ClientDisconnect:  # while the request was read
            pass
        return Response(status_code=CLIENT_CLOSED_REQUEST)

    async def _prepare(self, request: Request, decoded: DecodedRequest) -> DecodedRequest | Response:
        """Return the request to answer, or the response to one that the engine does not answer.

        Override it for an API whose requests depend on the kind of model server. Raises `ForgeError`.
        """
        return decoded

    async def _answer_whole(
        self, answer: AsyncGenerator[AnswerEvent], decoded: DecodedRequest, request_id: str, headers: Mapping[str, str]
    ) -> Response:
        """Return the whole response, built from the same chunks as a streamed one.

        The engine accounts for the chunks until the item after its report is requested; by then the response is
        accounted for.
        """
        chunks = ResponseCollector()
        compactions: list[ContextCompacted] = []
        response: Response | None = None
        try:
            async with aclosing(answer) as events:
                async for item in events:
                    if isinstance(item, Report):
                        headers = {**headers, **compaction_headers(compactions), **outcome_headers(item)}
                        chunks.report = item
                        body = await self._encode(decoded, chunks, request_id)
                        response = self._whole_response(body, headers)
                        del body
                        chunks = ResponseCollector()  # releases the chunks
                    elif isinstance(item, ContextCompacted):
                        compactions.append(item)
                    else:
                        chunks.add(item)
        except BaseException:
            if isinstance(response, LargeResponse):
                response.discard()
            raise
        assert response is not None  # noqa: S101  # an answer ends with a report, or raises
        return response

    async def _encode(self, decoded: DecodedRequest, chunks: ResponseCollector, request_id: str) -> bytes:
        created = int(time.time())
        if self._storage is not None:
            return await self._storage.encode_response(decoded, chunks, request_id, created)
        return decoded.encode_response(chunks, request_id, created)

    def _whole_response(self, body: bytes, headers: Mapping[str, str]) -> Response:
        if len(body) > LARGE:
            return LargeResponse(body, headers, self._memory)
        return Response(body, media_type="application/json", headers=headers)

    async def _read(self, request: Request) -> tuple[DecodedRequest, int]:
        """Read and decode the request; return it with the size of its body, which is not kept as it was received."""
        body, size = await read_json(request, self._large_bodies)
        if self._storage is not None:
            received = ReceivedRequest(body, size, owner_of(request), memory_of(request.scope))
            return await self._storage.decode(received, self._large_bodies), size
        return await self._large_bodies.convert(size, partial(self._surface.decode_request, body)), size


async def call_at_first_chunk(
    answer: AsyncGenerator[AnswerEvent], on_prompt: Callable[[], None]
) -> AsyncGenerator[AnswerEvent]:
    """Yield the events of an answer, and call `on_prompt` at the first one."""
    async with aclosing(answer) as events:
        async for item in events:
            on_prompt()
            yield item


async def read_json(request: Request, large_bodies: LargeBodies) -> tuple[JsonObject, int]:
    """Read a request's JSON object; return it with its size in bytes. Raises `InvalidRequest`."""
    pieces = [await read_whole(request.receive)]
    size = len(pieces[0])
    if size > LARGE:
        return await large_bodies.parse(pieces), size
    try:
        return read_body(pieces[0]), size
    except InvalidRequest as error:
        if request.headers.get("content-type", "").startswith(_FORMS):
            raise NotJson from error
        raise


def narrow(policy: GuardPolicy, switches: str | None) -> GuardPolicy:
    """Return the policy of a request with this `x-forge-guardrails` header. Raises `InvalidRequest`."""
    if switches is None:
        return policy
    return policy.model_copy(update={"enabled": read_switches(switches, policy.enabled)})
