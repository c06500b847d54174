"""Encodes the model list in Anthropic's format."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from forge_proxy.core.chat import ModelCard
from forge_proxy.core.jsontypes import Json, JsonObject, is_count, is_list

_MAX_TIME = 253_402_300_799
"""The last second of the year 9999."""


def encode_model(card: ModelCard) -> JsonObject:
    """Return one entry. `max_input_tokens` is the context window."""
    created = card.details.get("created")
    seconds = created if is_count(created) and created <= _MAX_TIME else 0  # 0 means unknown, as in Anthropic's API
    return {
        "type": "model",
        "id": card.id,
        "display_name": card.id,
        "created_at": datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z"),
        "lifecycle": "active",
        "max_input_tokens": card.window,
    }


def encode_models(cards: Sequence[ModelCard]) -> JsonObject:
    """Return the whole list as one page."""
    data: Json = [encode_model(card) for card in cards]
    first, last = (cards[0].id, cards[-1].id) if cards else (None, None)
    return {"data": data if is_list(data) else [], "has_more": False, "first_id": first, "last_id": last}
