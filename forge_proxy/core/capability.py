"""What a self-test found out about a model on its server: a value, for logs, for the admin API, and to be kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Literal

from forge_proxy.core.jsontypes import Json, JsonObject


@dataclass(frozen=True, slots=True)
class CapabilityCard:
    """None is for what could not be found out."""

    model: str
    tools: Literal["native", "prompt"]
    """How it is best told of tools."""
    because: str
    calls: bool
    """Whether it made a valid call, told of the tools in that way."""
    markup: str | None = None
    """The form in which it writes calls as text; None where the server reads them itself."""
    tools_reach_prompt: bool | None = None
    """Whether tools in a request come to stand in the prompt: there are chat templates that drop them silently."""
    required: bool | None = None
    """Whether `tool_choice: required` brings a call where words would do."""
    parallel: bool | None = None
    """Whether it made two calls in one answer."""
    prefix_cache: bool | None = None
    """Whether a prompt that comes again is read from the cache."""

    def as_json(self) -> JsonObject:
        """Its fields."""
        return asdict(self)


def read_card(said: Json) -> CapabilityCard | None:
    """The card that `as_json` made this of; None for anything else, such as one of another version."""
    names = {field.name for field in fields(CapabilityCard)}
    if not isinstance(said, Mapping) or set(said) != names:
        return None
    match said:
        case {
            "model": str(model),
            "tools": "native" | "prompt" as tools,
            "because": str(because),
            "calls": bool(calls),
            "markup": str() | None as markup,
        }:
            found = {key: value for key in _FOUND if isinstance(value := said[key], bool)}
            return CapabilityCard(model, tools, because, calls, markup, **found)
        case _:
            return None


_FOUND = ("tools_reach_prompt", "required", "parallel", "prefix_cache")
