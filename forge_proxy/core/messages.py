"""The messages that forge-proxy creates: those of a workflow's conversation and corrections added to a client's.

A client's own messages stay the JSON that it sent (`ChatRequest.messages`). Metadata states the purpose of a message,
by which compaction selects what to drop; it is never sent to a model.
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
    """A call by the model. `arguments` is JSON text as the model wrote it; it may be invalid."""

    tool: str
    arguments: str = "{}"
    id: str = ""
    reasoning: str | None = None
    """The reasoning before the call, if a custom client of the SDK reports it with the call."""

    @classmethod
    def of(cls, tool: str, args: Mapping[str, Json] | None = None, reasoning: str | None = None) -> ToolCall:
        """Build a call from arguments as an object, for custom clients. Its id is assigned on execution."""
        return cls(tool, write(args or {}), reasoning=reasoning)

    def args(self) -> dict[str, Json] | None:
        """Return the arguments as an object; None if `arguments` is not the JSON text of an object."""
        return read_object(self.arguments)


ToolCallInfo: TypeAlias = ToolCall
"""The name of the original project for a call within an assistant message; the same type here."""


class MessageRole(StrEnum):
    """The role of a message's author."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class MessageType(StrEnum):
    """The purpose of a message."""

    SYSTEM_PROMPT = "system_prompt"
    USER_INPUT = "user_input"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    REASONING = "reasoning"
    """Reasoning before calls. It is sent to the model as the content of the call message that follows."""
    TEXT_RESPONSE = "text_response"
    """Plain text although a call was expected."""
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
    """Internal data of a message. `step_index` is the iteration that created it, from 0; None: before the first."""

    type: MessageType
    step_index: int | None = None
    original_type: MessageType | None = None
    """The type of the messages that a summary replaces."""
    token_estimate: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message. In a `tool` message, `tool_call_id` and `tool_name` identify the call that it answers."""

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
        """Build a message of a type with the role of that type; a message that `answers` a call has the role `tool`."""
        role = MessageRole.TOOL if answers else _ROLES[type]
        meta = MessageMeta(type)
        return cls(role, content, meta, answers and answers.tool, answers and answers.id, tool_calls=calls)

    @property
    def type(self) -> MessageType:
        """The purpose of the message."""
        return self.metadata.type

    def at(self, step_index: int) -> Message:
        """Return a copy created in iteration `step_index`."""
        return replace(self, metadata=replace(self.metadata, step_index=step_index))

    def to_api_dict(self, format: MessageFormat = "openai") -> dict[str, Any]:  # noqa: A002 - as in forge
        """Return the message in the format of a model server, without the metadata.

        `openai` expects arguments as text and matches results to calls by id; `ollama` expects arguments as an object.
        Both formats include the tool's name, because some chat templates (Gemma's) reject a result with only an id.
        """
        out: dict[str, Any] = {"role": self.role.value, "content": self.content}
        if self.tool_calls:
            out["tool_calls"] = [_CALLS[format](call) for call in self.tool_calls]
        if self.tool_call_id is not None and format == "openai":
            out["tool_call_id"] = self.tool_call_id
        if self.tool_name:  # a model may have made a call with an empty name
            out["name" if format == "openai" else "tool_name"] = self.tool_name
        return out


def _openai(call: ToolCall) -> Json:
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}


def _ollama(call: ToolCall) -> Json:
    # Ollama accepts only an object. A call without one was never executed, and its correction describes the fault.
    return {"function": {"name": call.tool, "arguments": call.args() or {}}}


_CALLS = {"openai": _openai, "ollama": _ollama}
