"""Messages as JSON: OpenAI's format with two more fields, `type` and `step_index`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import Message, MessageMeta, MessageRole, MessageType, ToolCall

_TYPES = {
    "system": MessageType.SYSTEM_PROMPT,
    "user": MessageType.USER_INPUT,
    "assistant": MessageType.TEXT_RESPONSE,
    "tool": MessageType.TOOL_RESULT,
}


class CalledFunction(BaseModel):
    """The tool and the arguments of a call."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="The tool's name.")
    arguments: str = Field(description="The arguments object as JSON text.")


class CallJson(BaseModel):
    """A call by the model."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1, description="The call's id; its result refers to it.")
    type: Literal["function"] = Field(default="function", description="Always function.")
    function: CalledFunction = Field(description="The called tool and its arguments.")


class MessageJson(BaseModel):
    """A message of a run."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "user", "assistant", "tool"] = Field(description="The author of the message.")
    content: str | None = Field(default="", description="The text of the message.")
    tool_calls: list[CallJson] | None = Field(default=None, description="For role assistant: its calls.")
    tool_call_id: str | None = Field(default=None, description="For role tool: the id of the call.")
    tool_name: str | None = Field(
        default=None, description="For role tool: the tool's name, if the call does not contain it."
    )
    type: MessageType | None = Field(
        default=None, description="The purpose of the message, which determines how compaction treats it."
    )
    step_index: int | None = Field(default=None, description="The iteration in which the message was created.")


def to_json(message: Message) -> dict[str, Json]:
    """Return a message as a JSON object."""
    out = {**message.to_api_dict(), "type": message.type.value}
    out.pop("name", None)
    if message.tool_name is not None:
        out["tool_name"] = message.tool_name
    if message.metadata.step_index is not None:
        out["step_index"] = message.metadata.step_index
    return out


def parse_messages(messages_json: Sequence[MessageJson], at: str) -> tuple[Message, ...]:
    """Convert the initial messages of a run.

    Raises `InvalidRequest` for a call without a result, or a result without a call.
    """
    messages: list[Message] = []
    open_calls: dict[str, str] = {}
    for place, one in enumerate(messages_json):
        where = f"{at}[{place}]"
        if open_calls and one.role != "tool":
            raise InvalidRequest(where, f"expected the result of the call {next(iter(open_calls))!r} first")
        calls = tuple(ToolCall(call.function.name, call.function.arguments, call.id) for call in one.tool_calls or ())
        if calls and one.role != "assistant":
            raise InvalidRequest(f"{where}.tool_calls", "only allowed for role assistant")
        if repeated := [
            call.id for number, call in enumerate(calls) if call.id in [other.id for other in calls[:number]]
        ]:
            raise InvalidRequest(f"{where}.tool_calls", f"two calls have the id {repeated[0]!r}")
        name = one.tool_name
        if one.role == "tool":
            if one.tool_call_id not in open_calls:
                raise InvalidRequest(
                    f"{where}.tool_call_id", "the preceding assistant message has no open call with this id"
                )
            called = open_calls.pop(one.tool_call_id)
            name = name or called
        open_calls = {**open_calls, **{call.id: call.tool for call in calls}}
        kind = one.type or (MessageType.TOOL_CALL if calls else _TYPES[one.role])
        message = Message(
            MessageRole(one.role), one.content or "", MessageMeta(kind, one.step_index), name, one.tool_call_id, calls
        )
        messages.append(message)
    if not messages:
        raise InvalidRequest(at, "expected at least one message")
    if open_calls:
        raise InvalidRequest(at, f"the call {next(iter(open_calls))!r} has no result")
    return tuple(replace(message, metadata=replace(message.metadata, step_index=None)) for message in messages)
