"""Messages as JSON: as OpenAI's API writes them, with their `type` and iteration beside it."""

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
    """Which tool is called, and how."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="The tool.")
    arguments: str = Field(description="An object as JSON text.")


class CallJson(BaseModel):
    """A call by the model."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1, description="What its result names.")
    type: Literal["function"] = Field(default="function", description="There is no other.")
    function: CalledFunction = Field(description="The call.")


class MessageJson(BaseModel):
    """A message of a run."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "user", "assistant", "tool"] = Field(description="Who speaks.")
    content: str | None = Field(default="", description="What is said.")
    tool_calls: list[CallJson] | None = Field(default=None, description="Of an assistant: the calls it makes.")
    tool_call_id: str | None = Field(default=None, description="Of a tool: the call it answers.")
    tool_name: str | None = Field(default=None, description="Of a tool: its name, where the call does not tell it.")
    type: MessageType | None = Field(
        default=None, description="What it is for, which decides what becomes of it when context runs short."
    )
    step_index: int | None = Field(default=None, description="The iteration it was made in.")


def written(message: Message) -> dict[str, Json]:
    """A message as JSON."""
    out = {**message.to_api_dict(), "type": message.type.value}
    out.pop("name", None)
    if message.tool_name is not None:
        out["tool_name"] = message.tool_name
    if message.metadata.step_index is not None:
        out["step_index"] = message.metadata.step_index
    return out


def read_messages(said: Sequence[MessageJson], at: str) -> tuple[Message, ...]:
    """The messages that a run begins with. Raises `InvalidRequest` for a call without its result, or the reverse."""
    messages: list[Message] = []
    open_calls: dict[str, str] = {}
    for place, one in enumerate(said):
        where = f"{at}[{place}]"
        if open_calls and one.role != "tool":
            raise InvalidRequest(where, f"expected the result of the call {next(iter(open_calls))!r} first")
        calls = tuple(ToolCall(call.function.name, call.function.arguments, call.id) for call in one.tool_calls or ())
        if calls and one.role != "assistant":
            raise InvalidRequest(f"{where}.tool_calls", "only an assistant makes calls")
        if twice := [call.id for number, call in enumerate(calls) if call.id in [other.id for other in calls[:number]]]:
            raise InvalidRequest(f"{where}.tool_calls", f"two calls have the id {twice[0]!r}")
        name = one.tool_name
        if one.role == "tool":
            if one.tool_call_id not in open_calls:
                raise InvalidRequest(f"{where}.tool_call_id", "the assistant message before has no such open call")
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
