"""Items as they are stored and listed: each with an id, a type and a status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.wire.clients.responses.input_items import list_input_items, read_item_type

_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}
_MAX_ID = 128
"""Characters of an id that a client may give to an item; a longer one is replaced."""


def find_references(body: JsonObject) -> list[str]:
    """Return the ids of the items that `input` only refers to. Raises `InvalidRequest`."""
    return [reference for item in list_input_items(body.get("input")) if (reference := _reference(item)) is not None]


def resolve_references(body: JsonObject, found: Mapping[str, JsonObject]) -> JsonObject:
    """Return the body with the items that its `input` refers to. Raises `InvalidRequest` if one is not stored."""
    items: list[Json] = []
    for index, item in enumerate(list_input_items(body.get("input"))):
        reference = _reference(item)
        if reference is not None and reference not in found:
            why = "no item with this id is stored: send the item itself, or make its response with `store: true`"
            raise InvalidRequest(f"input[{index}].id", why)
        items.append(item if reference is None else found[reference])
    return {**body, "input": items}


def number_items(items: Sequence[JsonObject], suffix: str) -> list[JsonObject]:
    """Return input items with the fields that listed items have. `suffix` makes new ids unique."""
    return [_complete(item, f"{suffix}{index:04x}") for index, item in enumerate(items)]


def list_items(items: Iterable[JsonObject], *, after: str | None, limit: int, newest_first: bool) -> JsonObject:
    """Return a page of items as the API lists them. Raises `InvalidRequest` if there is no item `after`."""
    ordered = list(items)
    if newest_first:
        ordered.reverse()
    if after is not None:
        places = [place for place, item in enumerate(ordered) if item.get("id") == after]
        if not places:
            raise InvalidRequest("after", "no item of this response has this id")
        ordered = ordered[places[0] + 1 :]
    page: list[Json] = [*ordered[:limit]]
    return {
        "object": "list",
        "data": page,
        "first_id": ordered[0].get("id") if ordered else None,
        "last_id": ordered[len(page) - 1].get("id") if page else None,
        "has_more": len(ordered) > limit,
    }


def _reference(item: JsonObject) -> str | None:
    reference = item.get("id")
    return reference if read_item_type(item) == "item_reference" and isinstance(reference, str) else None


def _complete(item: JsonObject, suffix: str) -> JsonObject:
    kind, given = read_item_type(item), item.get("id")
    is_usable = isinstance(given, str) and 0 < len(given) <= _MAX_ID and given.isprintable()
    complete: dict[str, Json] = {
        "status": "completed",
        **item,
        "type": kind,
        "id": given if is_usable else f"{_PREFIXES.get(kind, 'item')}_{suffix}",
    }
    if kind == "message" and isinstance(text := item.get("content"), str):
        if item.get("role") == "assistant":
            complete["content"] = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
        else:
            complete["content"] = [{"type": "input_text", "text": text}]
    return complete
