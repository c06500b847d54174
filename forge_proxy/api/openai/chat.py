"""`POST /v1/chat/completions`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from forge_proxy.api.access_denied import NotJson
from forge_proxy.api.bodies import LARGE, SLICED, LargeBodies, LargeResponse, read_whole
from forge_proxy.api.config import ServerConfig
from forge_proxy.api.disconnect import leaving_cancels
from forge_proxy.api.errors import error_response
from forge_proxy.api.identity import client_of, request_id_of
from forge_proxy.api.openai.outcome import compacted_header, outcome_headers
from forge_proxy.api.streaming import StreamingAnswer, head_of
from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.errors import ForgeError, InvalidRequest
from forge_proxy.core.guardrails import GuardPolicy, read_switches
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.stream import Chunk, CompletionBuilder
from forge_proxy.engine.answer import AnswerEvent, Engine
from forge_proxy.engine.events import ContextCompacted
from forge_proxy.engine.memory import MemoryBudget
from forge_proxy.wire.clients.chat_completions.request import decode_request, read_body
from forge_proxy.wire.clients.chat_completions.response import encode_completion

_FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
_CLIENT_LEFT = 499
"""nginx's status for a caller who is gone; nobody receives it."""


class ChatCompletions:
    """The endpoint: reads a request, lets the engine answer it, and sends that streamed or whole."""

    def __init__(self, engine: Engine, config: ServerConfig, memory: MemoryBudget) -> None:
        self._engine = engine
        self._memory = memory
        self._large_bodies = LargeBodies()
        self._config = config

    async def create(self, request: Request) -> Response:
        """Answer one request."""
        request_id = request_id_of(request)
        headers = {"x-request-id": request_id}
        try:
            await self._engine.turns.take()  # hundreds may come at one time
            chat = await self._read(request)
            said = request.headers.get("x-forge-guardrails")
            policy = self._engine.policies.guardrails
            if said is not None:
                policy = narrowed(policy, said)
            answer = self._engine.answer(chat, policy, request_id=request_id, client=client_of(request))
            if chat.stream:
                return StreamingAnswer(answer, chat, request_id, self._config, headers)
            async with leaving_cancels(request.receive):
                return await self._answer_whole(answer, chat, request_id, headers)
        except ForgeError as error:
            return error_response(error, headers)
        except ClientDisconnect:  # in the middle of the request
            pass
        return Response(status_code=_CLIENT_LEFT)

    async def _answer_whole(
        self, answer: AsyncGenerator[AnswerEvent], chat: ChatRequest, request_id: str, headers: Mapping[str, str]
    ) -> Response:
        """The whole answer, made of the same chunks that a stream would have been.

        The engine counts the chunks until it is asked for what comes after its report; by then the response is counted.
        """
        whole = _WholeAnswer()
        compacted: list[ContextCompacted] = []
        response: Response | None = None
        try:
            async with aclosing(answer) as events:
                async for item in events:
                    if isinstance(item, Report):
                        told = {**headers, **compacted_header(compacted), **outcome_headers(item)}
                        response = self._whole_response(whole.body(chat, request_id), told)
                        whole = _WholeAnswer()  # the chunks are no longer needed
                    elif isinstance(item, ContextCompacted):
                        compacted.append(item)
                    else:
                        whole.add(item)
        except BaseException:
            if isinstance(response, LargeResponse):
                response.discard()
            raise
        assert response is not None  # noqa: S101  # an answer ends with a report, or raises
        return response

    def _whole_response(self, body: bytes, headers: Mapping[str, str]) -> Response:
        if len(body) > LARGE:
            return LargeResponse(body, headers, self._memory)
        return Response(body, media_type="application/json", headers=headers)

    async def _read(self, request: Request) -> ChatRequest:
        """What is asked. The body as it was sent is not kept."""
        pieces = [await read_whole(request.receive)]
        size = len(pieces[0])
        if size > LARGE:
            chat = decode_request(await self._large_bodies.parse(pieces))
            return replace(chat, is_large=size > SLICED)
        try:
            return decode_request(read_body(pieces[0]))
        except InvalidRequest as error:
            if request.headers.get("content-type", "").startswith(_FORMS):
                raise NotJson from error
            raise


def narrowed(policy: GuardPolicy, said: str) -> GuardPolicy:
    """The policy for a request whose header `x-forge-guardrails` says `said`. Raises `InvalidRequest`."""
    return policy.model_copy(update={"enabled": read_switches(said, policy.enabled)})


class _WholeAnswer:
    """Builds a whole response of its chunks as they come."""

    def __init__(self) -> None:
        self._first: Chunk | None = None
        self._builder: CompletionBuilder | None = None  # of more than one chunk

    def add(self, chunk: Chunk) -> None:
        if chunk == Chunk(restarts=True):  # the response was lost, and is retried
            self._first = self._builder = None
        elif chunk.progress is not None:
            pass
        elif self._first is None:
            self._first = chunk
        else:
            self._builder = self._builder or self._begun()
            self._builder.add(chunk)

    def body(self, chat: ChatRequest, request_id: str) -> bytes:
        """The JSON of the response; that of the model server if it came in one piece and in the client's own form."""
        if self._builder is None and self._first is not None and self._first.as_sent is not None:
            return self._first.as_sent
        builder = self._builder or self._begun()
        return encode_completion(builder.completion(), head_of(self._first, chat, request_id))

    def _begun(self) -> CompletionBuilder:
        builder = CompletionBuilder()
        if self._first is not None:
            builder.add(self._first)
        return builder
