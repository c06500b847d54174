"""Synthetic conversations whose renderings show a template's markup.

Each differs from another in one respect: no call, one or two, each type of argument. Names and values occur nowhere
else, so that they are found in the rendered text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from forge_proxy.core.jsontypes import Json, JsonObject, write

FIRST, SECOND = "qzfetch_7", "qzstore2"
"""The names of the tools. No template contains them, and digits show whether a template alters names."""
ONE, TWO, OTHER = "qzcity", "qzcount2", "qzother"
"""The names of arguments."""
TEXT = "Qzanswer in plain words"
STRING, STRING_2, NUMBER = "Qzoslo value", "Qzbergen value", 4173
TRICKY = 'Qz "quoted" it\'s\n\tüber \\n </x> {1}'
VALUES: dict[str, Json] = {
    "number": NUMBER,
    "fraction": 41.75,
    "true": True,
    "false": False,
    "null": None,
    "list": ["Qzleft item", 4174],
    "object": {"qzinner": "Qzdeep value", "qzflag": True},
    "tricky": TRICKY,
}
"""One value of each JSON type, and a string with characters that some encodings escape."""
CALLS: dict[str, tuple[tuple[str, dict[str, Json]], ...]] = {
    "string": ((FIRST, {ONE: STRING}),),
    "both": ((FIRST, {ONE: STRING, TWO: NUMBER}),),
    "strings": ((FIRST, {ONE: STRING, OTHER: STRING_2}),),
    "numbers": ((FIRST, {TWO: NUMBER, OTHER: 4174}),),
    "empty": ((FIRST, {}),),
    "two": ((FIRST, {ONE: STRING}), (SECOND, {ONE: STRING_2})),
    **{name: ((FIRST, {ONE: value}),) for name, value in VALUES.items()},
}
"""The calls of each rendering, beside those without a call: `prompt` and `text`."""


@dataclass(frozen=True, slots=True)
class Variant:
    """What a template may expect of a message with calls: arguments as an object or as JSON text, plain text that is
    empty or null, ids that contain the name, a tool result after the calls.
    """

    arguments: Literal["object", "text"] = "object"
    content: Literal["", "null"] = ""
    named_ids: bool = False
    answered: bool = False


VARIANTS = (
    Variant(),
    Variant(content="null"),
    Variant("text"),
    Variant("text", "null"),
    Variant(named_ids=True),
    Variant("text", named_ids=True),
    Variant(answered=True),
    Variant("text", answered=True),
)


@dataclass(frozen=True, slots=True)
class Conversation:
    """The input of one rendering."""

    messages: tuple[JsonObject, ...]
    tools: tuple[JsonObject, ...]
    opens_response: bool = False
    """Whether the template opens the response of the model: `add_generation_prompt`."""


def list_conversations(variant: Variant) -> Iterator[tuple[str, Conversation]]:
    """Yield the conversations by the names that `learn_form` expects."""
    user: JsonObject = {"role": "user", "content": "Qzquestion"}
    yield "prompt", Conversation((user,), _TOOLS, opens_response=True)
    # Servers continue a last message of the assistant in place of rendering its end.
    after: tuple[JsonObject, ...] = ({"role": "user", "content": RESULT},) if variant.answered else ()
    yield "text", Conversation((user, {"role": "assistant", "content": TEXT}, *after), _TOOLS)
    for name, calls in CALLS.items():
        yield name, Conversation((user, *message_with_calls(calls, variant)), _TOOLS)


def message_with_calls(calls: tuple[tuple[str, dict[str, Json]], ...], variant: Variant) -> list[JsonObject]:
    """Return a message with these calls, and their results if the variant has them."""
    content = None if variant.content == "null" else ""
    ids = [call_id(name, at, variant) for at, (name, _) in enumerate(calls)]
    written: list[Json] = [
        {
            "id": identity,
            "type": "function",
            "function": {"name": name, "arguments": write(args) if variant.arguments == "text" else args},
        }
        for identity, (name, args) in zip(ids, calls, strict=True)
    ]
    results: list[JsonObject] = [
        {"role": "tool", "tool_call_id": identity, "name": name, "content": RESULT}
        for identity, (name, _) in zip(ids, calls, strict=True)
    ]
    return [{"role": "assistant", "content": content, "tool_calls": written}, *(results if variant.answered else ())]


RESULT = "Qzresult of a tool"


def call_id(name: str, at: int, variant: Variant) -> str:
    """Return the id of a call: nine letters and digits, which Mistral's templates require, or Kimi's form."""
    return f"functions.{name}:{at}" if variant.named_ids else f"qzid0000{at}"


def _parameter(kind: str) -> Json:
    return {"type": kind, "description": "A value."}


def _tool(name: str) -> JsonObject:
    properties = {ONE: _parameter("string"), TWO: _parameter("integer"), OTHER: _parameter("string")}
    parameters: Json = {"type": "object", "properties": properties, "required": []}
    return {
        "type": "function",
        "function": {"name": name, "description": "A tool.", "parameters": parameters},
    }


_TOOLS = (_tool(FIRST), _tool(SECOND))
