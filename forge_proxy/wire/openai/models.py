"""The model list: a backend's to `ModelCard`s, and ours with the window in each of the fields that clients read."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.chat import ModelCard
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_list, is_object

_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length", "max_context")

_TOLD = ("max_model_len", "context_length", "max_context")
"""Those that clients read: vLLM's, LM Studio's, and one of neither. Theirs is `meta.n_ctx` where it is llama.cpp."""


def decode_models(body: Json) -> list[ModelCard]:
    """The models that a backend lists; an empty list for anything that is no model list."""
    data = body.get("data") if is_object(body) else None
    cards: list[ModelCard] = []
    for entry in data if is_list(data) else []:
        identity = entry.get("id") if is_object(entry) else None
        if is_object(entry) and isinstance(identity, str):
            cards.append(ModelCard(identity, _window(entry), entry))
    return cards


def encode_model(card: ModelCard) -> JsonObject:
    """One entry of our list: the backend's own fields, the required ones, and the window."""
    entry: dict[str, Json] = {
        "created": 0,
        "owned_by": "forge-proxy",
        **card.details,
        "id": card.id,
        "object": "model",
    }
    if card.window is not None:
        meta = card.details.get("meta")
        entry |= dict.fromkeys((*_TOLD, *(key for key in _WINDOWS if key in entry)), card.window)
        entry["meta"] = {**(meta if is_object(meta) else {}), "n_ctx": card.window}
    return entry


def encode_models(cards: Sequence[ModelCard]) -> JsonObject:
    """The whole list."""
    return {"object": "list", "data": [encode_model(card) for card in cards]}


def _window(entry: JsonObject) -> int | None:
    meta = entry.get("meta")
    values = [entry.get(key) for key in _WINDOWS]
    if is_object(meta):
        values.append(meta.get("n_ctx"))
    return next((value for value in values if is_integer(value) and value > 0), None)
