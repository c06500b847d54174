"""The OpenAPI description of the Conversations API."""

from __future__ import annotations

from typing import Any

from forge_proxy.api.openapi import (
    INVALID_REQUEST,
    array,
    error_responses,
    integer,
    json_response,
    object_schema,
    string,
)
from forge_proxy.api.responses_openapi import PAGE_PARAMETERS

_METADATA = {
    "type": "object",
    "description": "At most 16 pairs of strings.",
    "additionalProperties": {"type": "string"},
}
_ITEMS = array("At most 20 items.", {"$ref": "#/components/schemas/ResponseItem"})
CONVERSATION_SCHEMAS: dict[str, Any] = {
    "Conversation": object_schema(
        "A conversation.", ["id", "object", "created_at", "metadata"],
        id=string(""), object=string("", "conversation"), created_at=integer(""), metadata=_METADATA,
    ),
    "ConversationRequest": object_schema("The metadata and the first items.", [], metadata=_METADATA, items=_ITEMS),
    "ConversationItems": object_schema("The items to add.", ["items"], items=_ITEMS),
    "ConversationDeleted": object_schema(
        "The deleted conversation.", ["id", "object", "deleted"],
        id=string(""), object=string("", "conversation.deleted"), deleted={"type": "boolean"},
    ),
}  # fmt: skip
_ERRORS = error_responses(401, 403, **{
    "400": INVALID_REQUEST,
    "404": "No such conversation or item is stored for this key: `conversation_not_found`, `item_not_found`.",
    "503": "The store cannot be used: `store_unavailable`.",
})  # fmt: skip


def _in_path(name: str, description: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


_ID, _ITEM = _in_path("id", "The id of the conversation."), _in_path("item", "The id of the item.")


def _operation(
    name: str, summary: str, result: str, *parameters: dict[str, Any], request: str | None = None
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "tags": ["responses"],
        "parameters": [*parameters],
        "responses": {"200": json_response(result, "Done."), **_ERRORS},
    }
    if request is not None:
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{request}"}}}
        described["requestBody"] = {"required": True, "content": content}
        described["responses"] |= error_responses(408, 413, 415)
    return described


CONVERSATION_PATHS: dict[str, Any] = {
    "/v1/conversations": {
        "post": _operation(
            "create_conversation", "Create a conversation", "Conversation", request="ConversationRequest"
        ),
    },
    "/v1/conversations/{id}": {
        "get": _operation("get_conversation", "Show a conversation", "Conversation", _ID),
        "post": _operation(
            "update_conversation", "Replace the metadata", "Conversation", _ID, request="ConversationRequest"
        ),
        "delete": _operation("delete_conversation", "Delete a conversation", "ConversationDeleted", _ID),
    },
    "/v1/conversations/{id}/items": {
        "get": _operation("list_conversation_items", "List the items", "ResponseItemList", _ID, *PAGE_PARAMETERS[1:]),
        "post": _operation("add_conversation_items", "Add items", "ResponseItemList", _ID, request="ConversationItems"),
    },
    "/v1/conversations/{id}/items/{item}": {
        "get": _operation("get_conversation_item", "Show an item", "ResponseItem", _ID, _ITEM),
        "delete": _operation("delete_conversation_item", "Delete an item", "Conversation", _ID, _ITEM),
    },
}
