"""Encodes the model list, with the context window in each field that clients read."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.chat import WINDOW_FIELDS, ModelCard
from forge_proxy.core.jsontypes import Json, JsonObject, is_object
from forge_proxy.wire.clients.chat_completions.codex_catalog import encode_codex_catalog

_ADDED_FIELDS = ("max_model_len", "context_length", "max_context")
"""Fields that are always set: vLLM's, OpenRouter's and a third. llama.cpp's clients read `meta.n_ctx`."""


def encode_model(card: ModelCard) -> JsonObject:
    """Return one entry: the backend's own fields, the required fields, and the window in tokens."""
    entry: dict[str, Json] = {
        "created": 0,
        "owned_by": "forge-proxy",
        **card.details,
        "id": card.id,
        "object": "model",
    }
    if card.window is not None:
        meta = card.details.get("meta")
        entry |= dict.fromkeys((*_ADDED_FIELDS, *(key for key in WINDOW_FIELDS if key in entry)), card.window)
        entry["meta"] = {**(meta if is_object(meta) else {}), "n_ctx": card.window}
    return entry


def encode_models(cards: Sequence[ModelCard], *, codex: bool = False) -> JsonObject:
    """Return the whole list, with the catalog for Codex in `models` if it was requested."""
    listed: dict[str, Json] = {"object": "list", "data": [encode_model(card) for card in cards]}
    return {**listed, "models": encode_codex_catalog(cards)} if codex else listed
