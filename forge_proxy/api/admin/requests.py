"""`/admin/v1/requests`: the finished requests, newest first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Protocol

from fastapi import Path, Query
from pydantic import BaseModel, Field

from forge_proxy.api.admin.request_content import RequestContentInfo, to_content_info
from forge_proxy.core.guardrails.turn import Outcome
from forge_proxy.core.requests.content import StoredContent
from forge_proxy.core.requests.records import RequestRecord, RequestResult, TokenCounts
from forge_proxy.core.requests.stored import RequestFilter, StoredRequest
from forge_proxy.wire.request_content import decode_content


class RequestReader(Protocol):
    """The stored requests. Every method raises `StoreUnavailable`."""

    async def list(self, which: RequestFilter, *, before: int | None, limit: int) -> Sequence[StoredRequest]:
        """Return requests, newest first; with `before` only those with a lower number."""
        ...

    async def get(self, request: str) -> StoredRequest:
        """Return a request by its number, or the latest one with that id. Raises `RequestNotStored`."""
        ...

    async def read_content(self, number: int) -> bytes | None:
        """Return the encoded text of a request; None if it is not stored."""
        ...


class TokenInfo(BaseModel):
    """Token counts as the model server reports them; null if it reports none."""

    prompt: int | None = Field(description="Tokens of the prompt, cached ones included.")
    cached: int | None
    completion: int | None = Field(description="Tokens of the response, reasoning included.")
    reasoning: int | None


class RequestAttemptInfo(BaseModel):
    """One attempt of a request."""

    number: int
    fault: str | None = Field(description="The fault for which it was retried; null for the last attempt.")
    tool: str = Field(description="The tool of the invalid call; empty if there was none.")
    reason: str = Field(description="Why it is invalid.")
    seconds: float
    tokens: TokenInfo


class DeliveredCallInfo(BaseModel):
    """A tool call that was delivered."""

    tool: str
    outcome: Outcome


class RequestSummaryInfo(BaseModel):
    """A finished request in a list. Times are seconds."""

    number: int = Field(description="Requests are numbered in the order in which they ended.")
    request_id: str
    ended_at: float = Field(description="Seconds since 1970.")
    surface: str = Field(description="The client API, or the path of a relayed request.")
    client: str = Field(description="The label of the client's key; empty if it has none.")
    program: str = Field(description="The program that the client names.")
    model: str | None = Field(description="The model that the client named.")
    served: str | None = Field(description="The model that answered.")
    quantization: str = Field(description="Empty if unknown.")
    streamed: bool
    tools: int = Field(description="The number of tools that were offered.")
    result: RequestResult
    attempts: int
    faults: list[str] = Field(description="The faults for which attempts were retried.")
    seconds: float = Field(description="From its arrival to its end.")
    queued: float
    first_output: float | None = Field(description="From its arrival to the first piece of the response.")
    tokens: TokenInfo = Field(description="Of all attempts.")
    retry_tokens: int = Field(description="Tokens of the attempts that were retried.")
    error: str = Field(description="The error in which it ended; empty if there was none.")


class RequestDetail(RequestSummaryInfo):
    """A finished request."""

    backend_seconds: float = Field(description="Time in which the model server worked on it.")
    overhead_seconds: float = Field(description="Time of the daemon itself.")
    all_attempts: list[RequestAttemptInfo]
    calls: list[DeliveredCallInfo]
    interventions: list[str]
    content: RequestContentInfo | None = Field(description="Its text, if it is stored (`store.content`).")


class RequestPage(BaseModel):
    """Some of the requests, newest first."""

    data: list[RequestSummaryInfo]
    next: int | None = Field(description="The value of `before` for the next page; null on the last one.")


class RequestEndpoints:
    """The endpoints of `/requests`."""

    def __init__(self, open_requests: Callable[[], Awaitable[RequestReader]]) -> None:
        self._open = open_requests

    async def list(
        self,
        limit: Annotated[int, Query(ge=1, le=200, description="The largest number of requests.")] = 50,
        before: Annotated[
            int | None, Query(ge=1, le=2**62, description="The number of a request; only earlier ones are listed.")
        ] = None,
        result: Annotated[RequestResult | None, Query(description="Only requests that ended like this.")] = None,
        model: Annotated[str | None, Query(max_length=256, description="Only requests to this model.")] = None,
        surface: Annotated[str | None, Query(max_length=64, description="Only requests of this client API.")] = None,
        client: Annotated[str | None, Query(max_length=64, description="Only requests with this key label.")] = None,
        fault: Annotated[
            str | None, Query(max_length=32, description="Only requests with an attempt that had this fault.")
        ] = None,
        since: Annotated[float | None, Query(ge=0, description="Only those that ended then or later.")] = None,
        until: Annotated[float | None, Query(ge=0, description="Only those that ended before then.")] = None,
    ) -> RequestPage:
        """List the finished requests, newest first. `since` and `until` are seconds since 1970."""
        texts = (model, surface, client, fault)
        if any(text is not None and not text.isprintable() for text in texts):  # no stored text is like this
            return RequestPage(data=[], next=None)
        which = RequestFilter(None, result, model, surface, client, fault, since, until)
        found = await (await self._open()).list(which, before=before, limit=limit + 1)
        following = found[limit - 1].number if found[limit:] else None
        return RequestPage(data=[_to_summary(one) for one in found[:limit]], next=following)

    async def read(
        self, request: Annotated[str, Path(max_length=140, description="The number of a request, or its id.")]
    ) -> RequestDetail:
        """Show a request with each of its attempts. Of several with the same id the latest is shown."""
        requests = await self._open()
        found = await requests.get(request)
        content = await read_content(requests, found.number)
        record = found.record
        return RequestDetail(
            **_to_summary(found).model_dump(),
            backend_seconds=record.backend_seconds,
            overhead_seconds=record.overhead,
            all_attempts=[RequestAttemptInfo.model_validate(asdict(one)) for one in record.attempts],
            calls=[DeliveredCallInfo(tool=call.tool, outcome=call.outcome) for call in record.calls],
            interventions=list(record.interventions),
            content=to_content_info(content) if content is not None else None,
        )


async def read_content(requests: RequestReader, number: int) -> StoredContent | None:
    """Return the text of a request; None if it is not stored. Raises `StoreUnavailable`."""
    data = await requests.read_content(number)
    return await asyncio.to_thread(decode_content, data) if data is not None else None


def _to_summary(stored: StoredRequest) -> RequestSummaryInfo:
    record: RequestRecord = stored.record
    return RequestSummaryInfo(
        number=stored.number,
        request_id=record.request_id,
        ended_at=stored.ended_at,
        surface=record.origin.surface,
        client=record.origin.key_label,
        program=record.origin.program,
        model=record.model,
        served=record.served,
        quantization=stored.quantization,
        streamed=record.is_streamed,
        tools=record.tools,
        result=record.result,
        attempts=len(record.attempts),
        faults=list(record.faults),
        seconds=record.seconds,
        queued=record.queued,
        first_output=record.first_output,
        tokens=to_tokens(record.tokens),
        retry_tokens=record.retry_tokens,
        error=record.error,
    )


def to_tokens(tokens: TokenCounts) -> TokenInfo:
    """Return the API's representation of token counts."""
    return TokenInfo.model_validate(asdict(tokens))
