"""`/admin/v1/requests/{id}/replay` and `…/export`: replays a stored request, or exports it as test cases."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Annotated

from fastapi import Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from forge_proxy._version import __version__
from forge_proxy.api.admin.request_content import ReplyInfo, to_replies
from forge_proxy.api.admin.requests import RequestReader, TokenInfo, read_content, to_tokens
from forge_proxy.api.disconnect import cancel_on_disconnect
from forge_proxy.api.endpoint import CLIENT_CLOSED_REQUEST, narrow
from forge_proxy.api.identity import new_request_id
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.requests.content import AttemptContent, ContentNotStored, RequestContent, StoredContent
from forge_proxy.core.requests.records import REPLAY, RequestOrigin, RequestRecord, RequestResult
from forge_proxy.core.requests.stored import StoredRequest
from forge_proxy.core.rescue.golden_cases import write_golden_file
from forge_proxy.engine.answer import Engine
from forge_proxy.wire.request_replay import to_chat_request, to_golden_file

RequestName = Annotated[str, Path(max_length=140, description="The number of a request, or its id.")]


class ReplaySampling(BaseModel):
    """Sampling values in place of those of the client."""

    model_config = ConfigDict(extra="forbid")

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=0)
    min_p: float | None = Field(default=None, ge=0, le=1)
    seed: int | None = None
    max_tokens: int | None = Field(default=None, ge=1)


class ReplayChanges(BaseModel):
    """The changes to the stored request. Omitted fields keep its values."""

    model_config = ConfigDict(extra="forbid")

    guardrails: str | None = Field(
        default=None,
        max_length=200,
        description="As in the header `x-forge-guardrails`: `off`, or a list of those that stay on. Default: those in"
        " force now.",
    )
    model: str | None = Field(default=None, max_length=256)
    sampling: ReplaySampling = Field(default_factory=ReplaySampling)

    def to_fields(self) -> dict[str, Json]:
        """Return the fields of a request that they change."""
        fields: dict[str, Json] = self.sampling.model_dump(exclude_none=True)
        return fields if self.model is None else {**fields, "model": self.model}


class ReplayAttemptInfo(BaseModel):
    """One attempt of a request."""

    number: int
    fault: str | None = Field(description="The fault for which it was retried.")
    replies: list[ReplyInfo] = Field(description="What the model wrote, before any recovery or repair.")


class AnswerInfo(BaseModel):
    """A response to the request, with its attempts."""

    request_id: str
    model: str | None = Field(description="The model that responded.")
    result: RequestResult
    interventions: list[str]
    seconds: float
    tokens: TokenInfo
    attempts: list[ReplayAttemptInfo]
    received: list[ReplyInfo] = Field(description="What the client received.")
    error: str = Field(description="The error with which it ended; empty if there was none.")


class ReplayInfo(BaseModel):
    """The stored response and the new one."""

    original: AnswerInfo
    replay: AnswerInfo


class ReplayEndpoints:
    """The endpoints that need the text of a request."""

    def __init__(self, open_requests: Callable[[], Awaitable[RequestReader]], engine: Engine) -> None:
        self._open = open_requests
        self._engine = engine

    async def replay(self, request: RequestName, changes: ReplayChanges, received: Request) -> ReplayInfo:
        """Send a request again, with other guardrails, another model or other sampling values.

        It is stored as a request of its own, of the surface `replay`, and is not counted in the ledger.
        """
        stored, content = await self._read(request)
        if content.is_cut:
            raise ContentNotStored(stored.number, "its text was cut because of its size; it cannot be sent again")
        chat = to_chat_request(content, changes.to_fields())
        policy = narrow(self._engine.policies.guardrails, changes.guardrails)
        collected: list[RequestContent] = []

        def collect(one: AttemptContent | RequestContent) -> None:
            collected.extend([one] if isinstance(one, RequestContent) else ())

        answer = self._engine.answer(
            chat, policy, request_id=new_request_id(), client=REPLAY, origin=RequestOrigin(REPLAY), content=collect
        )
        async with cancel_on_disconnect(received.receive):
            try:
                async with aclosing(answer) as events:
                    async for _ in events:
                        pass
            except ForgeError:
                if not (collected and collected[0].attempts):  # nothing was answered that could be compared
                    raise
            return ReplayInfo(
                original=_to_answer(stored.record, content), replay=_to_answer(collected[0].record, collected[0])
            )
        return Response(status_code=CLIENT_CLOSED_REQUEST)  # pyright: ignore[reportReturnType]  # nobody receives it

    async def export(self, request: RequestName) -> Response:
        """Show a request as a file of golden cases, one for each attempt whose response has text.

        `forge-proxy rescue` and the tests in `tests/core/rescue` read it.
        """
        stored, content = await self._read(request)
        golden = await asyncio.to_thread(to_golden_file, content, f"request {stored.number}")
        if golden is None:
            raise ContentNotStored(
                stored.number, "no attempt has text, only calls in the server's own format; nothing is parsed from it"
            )
        record = stored.record
        model = " ".join(filter(None, (record.served or record.model, stored.quantization))) or "unknown"
        comments = [f"Request {record.request_id}, result {record.result}, model {model}; forge-proxy {__version__}."]
        name = f'attachment; filename="request-{stored.number}.txt"'
        return Response(
            write_golden_file(comments, golden), media_type="text/plain", headers={"content-disposition": name}
        )

    async def _read(self, request: str) -> tuple[StoredRequest, StoredContent]:
        requests = await self._open()
        stored = await requests.get(request)
        content = await read_content(requests, stored.number)
        if content is None:
            raise ContentNotStored(
                stored.number,
                "its text is not stored; set store.content to on for later requests, or raise store.content_days if it"
                " was deleted",
            )
        return stored, content


def _to_answer(record: RequestRecord, content: StoredContent | RequestContent) -> AnswerInfo:
    attempts = [
        ReplayAttemptInfo(number=one.number, fault=one.fault, replies=to_replies(one.replies))
        for one in content.attempts
    ]
    return AnswerInfo(
        request_id=record.request_id,
        model=record.served or record.model,
        result=record.result,
        interventions=list(record.interventions),
        seconds=record.seconds,
        tokens=to_tokens(record.tokens),
        attempts=attempts,
        received=to_replies(content.received),
        error=record.error,
    )
