"""The text of a stored request, as `/admin/v1/requests/{id}` shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, Field

from forge_proxy.core.requests.content import AttemptVerdict, StoredAttempt, StoredContent
from forge_proxy.core.stream import Reply


class WrittenCallInfo(BaseModel):
    """A tool call in a response."""

    id: str
    name: str
    arguments: str = Field(description="JSON text; as the model wrote it, it may be invalid.")


class ReplyInfo(BaseModel):
    """One choice of a response."""

    choice: int
    text: str | None
    reasoning: str | None
    calls: list[WrittenCallInfo]
    finish: str | None = Field(description="The finish reason.")


class SentCallInfo(BaseModel):
    """A call to the model server, as the difference from the previous one, so the conversation is not repeated."""

    kept_messages: int = Field(
        description="How many of the first messages are those of the previous attempt, or of the request."
    )
    messages: list[Any] = Field(description="The messages after them.")
    kept_tools: int = Field(
        description="How many of the first tools are those of the previous attempt, or of the request."
    )
    tools: list[Any]
    fields: dict[str, Any] = Field(description="Other fields that are new or have changed.")
    removed: list[str] = Field(description="Fields that were not sent.")


class AttemptContentInfo(BaseModel):
    """The text of one attempt."""

    number: int
    verdict: AttemptVerdict
    fault: str | None
    call: SentCallInfo
    replies: list[ReplyInfo] = Field(description="What the model wrote, before any recovery or repair.")
    correction: list[Any] = Field(description="The messages that were added for the next attempt.")
    usage: dict[str, Any] | None


class RequestContentInfo(BaseModel):
    """The text of a request, in the format of chat completions."""

    request: dict[str, Any] = Field(description="What the client requested.")
    attempts: list[AttemptContentInfo]
    received: list[ReplyInfo] = Field(description="What the client received.")
    is_cut: bool = Field(description="Whether long texts were cut because of the size.")


def to_content_info(content: StoredContent) -> RequestContentInfo:
    """Return the API's representation of a text."""
    return RequestContentInfo(
        request=dict(content.request),
        attempts=[_to_attempt(attempt) for attempt in content.attempts],
        received=to_replies(content.received),
        is_cut=content.is_cut,
    )


def to_replies(replies: Iterable[Reply]) -> list[ReplyInfo]:
    """Return the API's representation of a response."""
    return [
        ReplyInfo(
            choice=reply.choice,
            text=reply.text,
            reasoning=reply.reasoning,
            calls=[WrittenCallInfo(id=call.id, name=call.tool, arguments=call.arguments) for call in reply.calls],
            finish=reply.finish,
        )
        for reply in replies
    ]


def _to_attempt(attempt: StoredAttempt) -> AttemptContentInfo:
    return AttemptContentInfo(
        number=attempt.number,
        verdict=attempt.verdict,
        fault=attempt.fault,
        call=SentCallInfo.model_validate(asdict(attempt.call)),
        replies=to_replies(attempt.replies),
        correction=list(attempt.correction),
        usage=dict(attempt.usage) if attempt.usage is not None else None,
    )
