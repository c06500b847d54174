"""A chat as the engine sees it: what was asked, which tools are offered, what a call and a message are.

Made by `wire` from a caller's bytes, read by everything below `api`. The caller's own JSON is kept beside the parsed
fields, because what we do not own is passed on as it came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from forge_proxy.core.dialect import AS_SENT, Dialect
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.fast_dataclass import record
from forge_proxy.core.jsontypes import JsonObject, is_object, no_fields
from forge_proxy.core.messages import Message

Schema: TypeAlias = JsonObject | bool
"""A JSON Schema as the caller sent it: an object, or `True` for "anything"."""


@record
class ToolSpec:
    """A function tool that is offered to the model."""

    name: str
    parameters: Schema = True
    description: str = ""

    @classmethod
    def from_json_schema(cls, name: str, description: str, schema: Mapping[str, Any]) -> ToolSpec:
        """A tool whose arguments are the properties of a JSON Schema of type object. Raises `InvalidRequest`."""
        if not is_object(schema):
            raise InvalidRequest(f"{name}.parameters", f"expected a JSON Schema as a dict, got {type(schema).__name__}")
        if schema.get("type", "object") != "object":
            raise InvalidRequest(f"{name}.parameters.type", "expected 'object': arguments are always an object")
        return cls(name, schema, description)


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether a call is free, demanded or forbidden; `names` narrows it to some tools, empty means all."""

    mode: Literal["auto", "required", "none"] = "auto"
    names: tuple[str, ...] = ()

    def allows(self, name: str) -> bool:
        """Whether a call of the tool called `name` satisfies this choice."""
        return not self.names or name in self.names

    def __str__(self) -> str:
        return f"a call of {' or '.join(self.names)}" if self.names else "a tool call"


@record
class ChatRequest:
    """One chat completion request, read at the door."""

    body: JsonObject
    """The caller's own JSON, never changed."""
    messages: tuple[JsonObject, ...] = ()
    """The conversation as the caller wrote it."""
    model: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel: bool = True
    """`parallel_tool_calls`: whether one answer may hold several calls."""
    stream: bool = False
    include_usage: bool = False
    choices: int = 1
    """`n`: how many answers are asked for."""
    limit: int | None = None
    """The caller's limit of completion tokens, the smaller one where two fields give one."""
    is_large: bool = False
    """Whether the body is so large that it is written in slices."""


@record
class ModelCall:
    """What a backend is asked: the caller's request, and what we add to it for this attempt."""

    request: ChatRequest
    stream: bool
    respond: ToolSpec | None = None
    """Our synthetic tool, offered last so that the prompt up to it stays the same from turn to turn."""
    added: tuple[Message, ...] = ()
    """Failed answers and corrections, after the caller's messages."""
    demanded: tuple[ToolSpec, ...] = ()
    """Tools of which the backend is held to write a call as JSON text, and nothing else (the last retry)."""
    model: str | None = None
    """The name to send to the backend where it differs from the caller's, who is answered under the name asked for."""
    usage: bool = False
    """Whether token counts are wanted, also of a stream whose caller did not ask for them."""
    dialect: Dialect = AS_SENT
    """How the backend wants it written."""
    room: int | None = None
    """Completion tokens that the window has room for, where the caller asked for more; 0 leaves that to the backend."""
    sampling: JsonObject = field(default_factory=no_fields)
    """What is filled in where the caller leaves it open, by llama.cpp's names."""
    verbatim: bool = False
    """Whether the answer is only passed on: its chunks then need to hold no more than `as_sent`, after the first."""
    buffered: bool = True
    """Whether the chunks are put together, and not only passed on: what they bring is then bounded."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model that a backend serves. `window` is in tokens; `details` is what the backend says of it."""

    id: str
    window: int | None = None
    details: JsonObject = field(default_factory=no_fields)


def window_of(cards: Sequence[ModelCard], model: str | None) -> int | None:
    """The window of a model, by the list of all; that of the only one where none is named."""
    if model is None:
        return cards[0].window if len(cards) == 1 else None
    return next((card.window for card in cards if card.id == model), None)
