"""The messages that we write ourselves: those of a workflow's conversation, and corrections added to a caller's.

A caller's own messages stay the JSON they came as (`ChatRequest.messages`). Metadata says what a message is for, which
decides what becomes of it when context runs short; a model is never told it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from forge_proxy.core.jsontypes import Json, read_object, write

MessageFormat: TypeAlias = Literal["openai", "ollama"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call by the model. `arguments` is JSON text as the model wrote it, so it may be invalid until it was judged."""

    tool: str
    arguments: str = "{}"
    id: str = ""
    reasoning: str | None = None
    """What the model thought before it, where a client of one's own tells that with the call."""

    @classmethod
    def of(cls, tool: str, args: Mapping[str, Json] | None = None, reasoning: str | None = None) -> ToolCall:
        """A call with these arguments, for clients that have them as an object. It gets an id where it is run."""
        return cls(tool, write(args or {}), reasoning=reasoning)

    def args(self) -> dict[str, Json] | None:
        """The arguments as an object; None when `arguments` is not the text of one."""
        return read_object(self.arguments)


ToolCallInfo: TypeAlias = ToolCall
"""The seeds' name for a call within an assistant message: it is the same value here."""


class MessageRole(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class MessageType(StrEnum):
    """What a message is for."""

    SYSTEM_PROMPT = "system_prompt"
    USER_INPUT = "user_input"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    REASONING = "reasoning"
    """Thoughts that came before calls. They are told as the content of the call message that follows."""
    TEXT_RESPONSE = "text_response"
    """Text where a call was wanted."""
    STEP_NUDGE = "step_nudge"
    PREREQUISITE_NUDGE = "prerequisite_nudge"
    RETRY_NUDGE = "retry_nudge"
    SUMMARY = "summary"


_ROLES = {
    MessageType.SYSTEM_PROMPT: MessageRole.SYSTEM,
    MessageType.USER_INPUT: MessageRole.USER,
    MessageType.TOOL_CALL: MessageRole.ASSISTANT,
    MessageType.TOOL_RESULT: MessageRole.TOOL,
    MessageType.REASONING: MessageRole.ASSISTANT,
    MessageType.TEXT_RESPONSE: MessageRole.ASSISTANT,
    MessageType.STEP_NUDGE: MessageRole.TOOL,
    MessageType.PREREQUISITE_NUDGE: MessageRole.TOOL,
    MessageType.RETRY_NUDGE: MessageRole.USER,
    MessageType.SUMMARY: MessageRole.SYSTEM,
}


@dataclass(frozen=True, slots=True)
class MessageMeta:
    """What only we know of a message. `step_index` is the iteration it was made in, from 0; None is from before."""

    type: MessageType
    step_index: int | None = None
    original_type: MessageType | None = None
    """What a summary stands for."""
    token_estimate: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message. A `tool` one says by `tool_call_id` which call it answers, and by `tool_name` that call's tool."""

    role: MessageRole
    content: str
    metadata: MessageMeta
    tool_name: str | None = None
    tool_call_id: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()

    @classmethod
    def of(
        cls,
        type: MessageType,  # noqa: A002 - the field of the metadata
        content: str = "",
        *,
        calls: tuple[ToolCall, ...] = (),
        answers: ToolCall | None = None,
    ) -> Message:
        """A message of that type, in the role of all such; what `answers` a call is a `tool` message."""
        role = MessageRole.TOOL if answers else _ROLES[type]
        meta = MessageMeta(type)
        return cls(role, content, meta, answers and answers.tool, answers and answers.id, tool_calls=calls)

    @property
    def type(self) -> MessageType:
        """What it is for."""
        return self.metadata.type

    def at(self, step_index: int) -> Message:
        """The same, made in that iteration."""
        return replace(self, metadata=replace(self.metadata, step_index=step_index))

    def to_api_dict(self, format: MessageFormat = "openai") -> dict[str, Any]:  # noqa: A002 - the seeds' name
        """As a model server takes it, without the metadata.

        `openai` wants arguments as text, and calls matched by id; `ollama` wants them as an object. Both are told whose
        result it is: by the id alone some chat templates (Gemma's) cannot tell, and refuse.
        """
        out: dict[str, Any] = {"role": self.role.value, "content": self.content}
        if self.tool_calls:
            out["tool_calls"] = [_CALLS[format](call) for call in self.tool_calls]
        if self.tool_call_id is not None and format == "openai":
            out["tool_call_id"] = self.tool_call_id
        if self.tool_name:  # a model may have called nothing by name
            out["name" if format == "openai" else "tool_name"] = self.tool_name
        return out


def _openai(call: ToolCall) -> Json:
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}


def _ollama(call: ToolCall) -> Json:
    # It takes nothing but an object; what is none was never run, and its correction says what was wrong.
    return {"function": {"name": call.tool, "arguments": call.args() or {}}}


_CALLS = {"openai": _openai, "ollama": _ollama}
