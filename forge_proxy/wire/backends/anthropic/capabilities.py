"""What a Messages server tells of one of its models, which decides how a request to it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forge_proxy.core.chat import ModelCard
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_object


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """None, and an empty set, where the server does not tell."""

    most: int | None = None
    """The largest `max_tokens`."""
    thinking: frozenset[str] = frozenset()
    """The types of `thinking` that it takes."""
    efforts: frozenset[str] = frozenset()
    structured: bool | None = None
    """Whether it can be held to a JSON Schema."""


def read_facts(model: JsonObject) -> ModelFacts:
    """The facts in one entry of the model list."""
    most = model.get("max_tokens")
    told = model.get("capabilities")
    can = told if is_object(told) else {}
    thinking = can.get("thinking")
    structured = can.get("structured_outputs")
    return ModelFacts(
        most=most if is_integer(most) and most > 0 else None,
        thinking=_supported(thinking.get("types") if is_object(thinking) else None),
        efforts=_supported(can.get("effort")),
        structured=_holds(structured) if is_object(structured) else None,
    )


def card_of(model: JsonObject) -> ModelCard | None:
    """One entry of the model list as ours; None where it has no id."""
    identity, window = model.get("id"), model.get("max_input_tokens")
    if not isinstance(identity, str):
        return None
    kept = {key: model[key] for key in ("display_name", "max_tokens") if model.get(key) is not None}
    details: dict[str, Json] = {"owned_by": "anthropic", **kept}
    return ModelCard(identity, window if is_integer(window) and window > 0 else None, details)


def _supported(capabilities: Json) -> frozenset[str]:
    if not is_object(capabilities):
        return frozenset()
    return frozenset(name for name, said in capabilities.items() if _holds(said))


def _holds(capability: Json) -> bool:
    return isinstance(capability, Mapping) and capability.get("supported") is True
