"""The text of a request: what was sent to the model, what it wrote, and what the client received.

Events and records never contain it. The engine passes it on only if an observer of contents was set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from forge_proxy.core.chat import ChatRequest, ModelCall, ToolGrammar
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, no_fields
from forge_proxy.core.messages import Message
from forge_proxy.core.requests.records import RequestRecord
from forge_proxy.core.stream import Reply

AttemptVerdict: TypeAlias = Literal["delivered", "retried", "failed"]
"""The outcome of an attempt: it ended the request, it was retried, or the request failed or was abandoned in it."""


@dataclass(frozen=True, slots=True)
class AttemptContent:
    """One attempt of a request."""

    request_id: str
    number: int
    call: ModelCall
    """The call as it was last sent, in the dialect of the model server."""
    replies: tuple[Reply, ...]
    """What the model wrote, before any recovery or repair; one reply for each choice."""
    verdict: AttemptVerdict
    fault: str | None = None
    """The `Fault` for which it was retried."""
    correction: tuple[Message, ...] = ()
    """What the next attempt appends to the conversation: the failed response and its correction."""
    usage: JsonObject | None = None
    """The token counts of the model server."""


@dataclass(frozen=True, slots=True)
class RequestContent:
    """A finished request."""

    record: RequestRecord
    """The same object as in the event of its end, by which both are joined."""
    request: ChatRequest
    attempts: tuple[AttemptContent, ...]
    received: tuple[Reply, ...]
    """What the client received, one reply for each choice. Incomplete if the request failed or was abandoned."""
    is_cut: bool = False
    """Whether the response was too long to be collected as a whole."""


@dataclass(frozen=True, slots=True)
class CallDifference:
    """A call as the difference from the previous attempt's, or, for the first attempt, from the client's request.

    The conversation is stored once, however many attempts there were.
    """

    kept_messages: int
    """How many messages are the same as in the call before, from the first one on."""
    messages: tuple[Json, ...]
    """The messages after them."""
    kept_tools: int
    tools: tuple[Json, ...]
    fields: JsonObject
    """Other fields that are new or have changed."""
    removed: tuple[str, ...]
    """Fields that the call before has, and this one has not."""

    @classmethod
    def between(cls, before: JsonObject, after: JsonObject) -> CallDifference:
        """Return the difference between two calls."""
        kept_messages, messages = _split(before.get("messages"), after.get("messages"))
        kept_tools, tools = _split(before.get("tools"), after.get("tools"))
        fields = {
            name: value
            for name, value in after.items()
            if not (name in _LISTS and is_list(value) and (value or is_list(before.get(name))))
            and (name not in before or before[name] != value)
        }
        removed = tuple(name for name in before if name not in after)
        return cls(kept_messages, messages, kept_tools, tools, fields, removed)

    def apply(self, before: JsonObject) -> dict[str, Json]:
        """Return the call, given the previous one."""
        body = {name: value for name, value in before.items() if name not in self.removed}
        for name, kept, added in (
            ("messages", self.kept_messages, self.messages),
            ("tools", self.kept_tools, self.tools),
        ):
            known = before.get(name)
            if name not in self.removed and (kept or added or is_list(known)):
                body[name] = [*(known[:kept] if is_list(known) else ()), *added]
        return {**body, **self.fields}


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """One attempt of a stored request."""

    number: int
    verdict: AttemptVerdict
    fault: str | None
    call: CallDifference
    replies: tuple[Reply, ...]
    correction: tuple[Json, ...]
    """Messages in the form in which they were sent."""
    usage: JsonObject | None


@dataclass(frozen=True, slots=True)
class StoredContent:
    """The text of a request as it is stored."""

    request: JsonObject
    """The client's request in the format of chat completions, into which all client APIs are converted."""
    attempts: tuple[StoredAttempt, ...]
    received: tuple[Reply, ...]
    is_cut: bool
    """Whether long texts were cut because of the size. Such a request cannot be replayed."""
    is_converted: bool = False
    """Whether the client spoke another API."""
    grammars: Mapping[str, ToolGrammar] = field(default_factory=dict[str, ToolGrammar])
    """The grammars of tools, which the format of chat completions does not have, by the names of the tools."""
    anthropic: JsonObject = field(default_factory=no_fields)
    """See `ChatRequest.anthropic`."""


class ContentNotStored(ForgeError):
    """The text of a stored request is needed and is not stored."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"request {number}: {reason}")

    @property
    def summary(self) -> str:
        return str(self)


_LISTS = ("messages", "tools")


def _split(before: Json, after: Json) -> tuple[int, tuple[Json, ...]]:
    """Return how many items at the beginning are equal, and the items after them."""
    if not is_list(after):
        return 0, ()
    kept = 0
    for old, new in zip(before if is_list(before) else (), after, strict=False):
        if old is not new and old != new:
            break
        kept += 1
    return kept, tuple(after[kept:])
