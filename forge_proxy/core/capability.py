"""The result of a self-test of a model on its server: a value for logs, the admin API and the capability cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Literal

from forge_proxy.core.chat import Constraint
from forge_proxy.core.deprecation import renamed_attribute
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.rescue.templates import LearnedTemplate, read_learned


@dataclass(frozen=True, slots=True)
class CapabilityCard:
    """The capabilities of one model. None means that the self-test could not determine the value."""

    model: str
    tools: Literal["native", "prompt"]
    """How to describe tools to the model."""
    reason: str
    calls: bool
    """Whether the model made a valid call with tools described that way."""
    markup: str | None = None
    """The form in which the model writes calls as text; None if the server parses them."""
    tools_reach_prompt: bool | None = None
    """Whether the chat template renders the request's tools into the prompt; some templates silently drop them."""
    required: bool | None = None
    """Whether `tool_choice: required` leads to a call where plain text would suffice."""
    parallel: bool | None = None
    """Whether the model made two calls in one response."""
    prefix_cache: bool | None = None
    """Whether a repeated prompt is read from the prefix cache."""
    constraint: Constraint | None = None
    """What limits the model to calls of the offered tools, where plain text would suffice."""
    template: LearnedTemplate | None = None
    """What was learned from the model's chat template."""

    because = renamed_attribute("because", "reason")

    def as_json(self) -> JsonObject:
        """Return the fields as a JSON object."""
        return asdict(self)


def read_card(value: Json) -> CapabilityCard | None:
    """Parse a card from the output of `as_json`; None for anything else, such as a card of another version."""
    names = {field.name for field in fields(CapabilityCard)}
    if not isinstance(value, Mapping) or {*value, "template"} != names:  # cards until 0.2 have no template
        return None
    match value:
        case {
            "model": str(model),
            "tools": "native" | "prompt" as tools,
            "reason": str(reason),
            "calls": bool(calls),
            "markup": str() | None as markup,
            "constraint": "schema" | "tool_choice" | "none" | None as constraint,
        }:
            flags = {key: flag for key in _FLAGS if isinstance(flag := value[key], bool)}
            template = read_learned(value.get("template"))
            return CapabilityCard(
                model, tools, reason, calls, markup, **flags, constraint=constraint, template=template
            )
        case _:
            return None


_FLAGS = ("tools_reach_prompt", "required", "parallel", "prefix_cache")
