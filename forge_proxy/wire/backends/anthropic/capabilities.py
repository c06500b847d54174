"""Decodes a model's entry in the model list: its capabilities, which affect how requests are encoded, and its card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forge_proxy.core.chat import ModelCard
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_object


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The capabilities of a model; None and empty sets for what the server does not report."""

    max_tokens: int | None = None
    """The largest `max_tokens`."""
    thinking: frozenset[str] = frozenset()
    """The supported types of `thinking`."""
    efforts: frozenset[str] = frozenset()
    has_structured_outputs: bool | None = None
    """Whether responses can be constrained by a JSON Schema."""


def decode_facts(model: JsonObject) -> ModelFacts:
    """Return the capabilities in one entry of the model list."""
    most = model.get("max_tokens")
    listed = model.get("capabilities")
    can = listed if is_object(listed) else {}
    thinking = can.get("thinking")
    structured = can.get("structured_outputs")
    return ModelFacts(
        max_tokens=most if is_integer(most) and most > 0 else None,
        thinking=_read_supported(thinking.get("types") if is_object(thinking) else None),
        efforts=_read_supported(can.get("effort")),
        has_structured_outputs=_is_supported(structured) if is_object(structured) else None,
    )


def decode_card(model: JsonObject) -> ModelCard | None:
    """Return the card of one entry of the model list; None if it has no id."""
    identity, window = model.get("id"), model.get("max_input_tokens")
    if not isinstance(identity, str):
        return None
    kept = {key: model[key] for key in ("display_name", "max_tokens") if model.get(key) is not None}
    details: dict[str, Json] = {"owned_by": "anthropic", **kept}
    return ModelCard(identity, window if is_integer(window) and window > 0 else None, details)


def _read_supported(capabilities: Json) -> frozenset[str]:
    if not is_object(capabilities):
        return frozenset()
    return frozenset(name for name, value in capabilities.items() if _is_supported(value))


def _is_supported(capability: Json) -> bool:
    return isinstance(capability, Mapping) and capability.get("supported") is True
