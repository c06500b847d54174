"""Requests and objects of the Conversations API."""

from __future__ import annotations

import orjson

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import JsonObject, is_object
from forge_proxy.core.stored_responses import StoredConversation
from forge_proxy.wire.clients import fields
from forge_proxy.wire.clients.responses.input_items import InputDecoder
from forge_proxy.wire.clients.responses.tools import OfferedTools

_MAX_PAIRS, _MAX_KEY, _MAX_VALUE = 16, 64, 512


def read_metadata(body: JsonObject) -> str:
    """Return the metadata as JSON: at most 16 pairs of short strings. Raises `InvalidRequest`."""
    metadata = body.get("metadata")
    if metadata is None:
        return "{}"
    if not is_object(metadata):
        fields.reject("metadata", "an object", metadata)
    if len(metadata) > _MAX_PAIRS:
        raise InvalidRequest("metadata", f"expected at most {_MAX_PAIRS} keys")
    for key, value in metadata.items():
        if len(key) > _MAX_KEY:
            raise InvalidRequest("metadata", f"expected keys of at most {_MAX_KEY} characters")
        if not isinstance(value, str) or len(value) > _MAX_VALUE:
            raise InvalidRequest(f"metadata.{key}", f"expected a string of at most {_MAX_VALUE} characters")
    return orjson.dumps(metadata).decode()


def decode_items(body: JsonObject, most: int, *, is_required: bool = True) -> list[JsonObject]:
    """Return the items to add, after a check that requests can continue them. Raises `InvalidRequest`."""
    items = fields.read_objects(body, "items")
    if is_required and not items:
        raise InvalidRequest("items", "expected at least one item")
    if len(items) > most:
        raise InvalidRequest("items", f"expected at most {most} items, got {len(items)}")
    InputDecoder(OfferedTools()).add(items, "items")
    return items


def encode_conversation(conversation: StoredConversation) -> JsonObject:
    """Return the object that describes a conversation."""
    return {
        "id": conversation.id,
        "object": "conversation",
        "created_at": int(conversation.created_at),
        "metadata": orjson.loads(conversation.metadata),
    }
