"""Decodes the model list of a model server."""

from __future__ import annotations

from forge_proxy.core.chat import WINDOW_FIELDS, ModelCard
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_list, is_object


def decode_models(body: Json) -> list[ModelCard]:
    """Return the models in a response to `/models`; an empty list if it is not a model list."""
    data = body.get("data") if is_object(body) else None
    cards: list[ModelCard] = []
    for entry in data if is_list(data) else []:
        identity = entry.get("id") if is_object(entry) else None
        if is_object(entry) and isinstance(identity, str):
            cards.append(ModelCard(identity, _window(entry), entry))
    return cards


def _window(entry: JsonObject) -> int | None:
    meta = entry.get("meta")
    values = [entry.get(key) for key in WINDOW_FIELDS]
    if is_object(meta):
        values.append(meta.get("n_ctx"))
    return next((value for value in values if is_integer(value) and value > 0), None)
