"""The OpenAPI description of the Responses API."""

from __future__ import annotations

from typing import Any

from forge_proxy.api.openapi import (
    FORGE_HEADERS,
    FORGE_PARAMETERS,
    INVALID_REQUEST,
    array,
    error_responses,
    integer,
    json_response,
    object_schema,
    string,
)

_ITEM = object_schema(
    "message, reasoning, function_call, function_call_output, custom_tool_call, custom_tool_call_output, "
    "local_shell_call, local_shell_call_output, item_reference, additional_tools, and others, which are dropped.", [],
    type=string(""), id=string(""),
)  # fmt: skip
SCHEMAS: dict[str, Any] = {
    "ResponsesRequest": object_schema(
        "An OpenAI Responses request. Fields that the API does not have are passed on to the model server.", [],
        model=string("The name of the model; if only one is served, any name works."),
        input={"description": "Text, or a list of items.", "type": ["string", "array"]},
        instructions={"description": "The first system message.", "type": ["string", "null"]},
        tools=array(
            "Of the types `function`, `custom`, `namespace`, `local_shell`, `shell`, `apply_patch` and `tool_search`; "
            "hosted tools are dropped.",
            object_schema("A tool.", ["type"], type=string("")),
        ),
        tool_choice={
            "description": "`none`, `auto`, `required`, or an object that names one or several tools; always enforced.",
            "type": ["string", "object"],
        },
        parallel_tool_calls={"type": "boolean", "description": "Whether one response may contain several calls."},
        stream={"type": "boolean", "description": "Server-sent events in place of one JSON object."},
        max_output_tokens={"type": "integer", "minimum": 1, "description": "Lowered to what fits into the window."},
        temperature={"type": "number"}, top_p={"type": "number"},
        text=object_schema("`format`: `text`, `json_object` or `json_schema`.", []),
        reasoning=object_schema("`effort`, and `summary` to receive the reasoning as a summary.", []),
        include=array("Supported: `reasoning.encrypted_content`, `message.output_text.logprobs`.", string("")),
        store={"type": "boolean", "description": "Whether the response is stored; store.responses sets the default."},
        previous_response_id={"type": ["string", "null"], "description": "A stored response to continue."},
        conversation={"type": ["string", "object", "null"], "description": "A conversation to continue or to begin."},
        background={
            "type": "boolean",
            "description": "Whether the request is stored and answered later, even if the connection is lost.",
        },
    ),
    "Response": object_schema(
        "The response.", ["id", "object", "created_at", "status", "model", "output"],
        id=string(""), object=string("", "response"), created_at=integer(""),
        status=string("", "queued", "in_progress", "completed", "incomplete", "failed", "cancelled"),
        model=string("The model that answered."),
        output=array("The items that the model wrote.", {"$ref": "#/components/schemas/ResponseItem"}),
        usage={"description": "Input, output and total tokens.", "type": ["object", "null"]},
        store={"type": "boolean", "description": "Whether the response is stored."},
    ),
    "ResponseItem": _ITEM,
    "ResponseItemList": object_schema(
        "A page of items.", ["object", "data", "has_more"], object=string("", "list"),
        data=array("", {"$ref": "#/components/schemas/ResponseItem"}), has_more={"type": "boolean"},
        first_id={"type": ["string", "null"]}, last_id={"type": ["string", "null"]},
    ),
    "ResponseDeleted": object_schema(
        "The deleted response.", ["id", "deleted"], id=string(""), object=string(""), deleted={"type": "boolean"},
    ),
    "ResponseInputTokens": object_schema(
        "The size of a prompt.", ["object", "input_tokens"], object=string("", "response.input_tokens"),
        input_tokens=integer("The tokens of the prompt, with its tools."),
    ),
}  # fmt: skip

_REQUEST: dict[str, Any] = {
    "required": True,
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ResponsesRequest"}}},
}
_ID = [{
    "name": "id", "in": "path", "required": True, "description": "The id of the response.",
    "schema": {"type": "string", "minLength": 1},
}]  # fmt: skip
_STORE_ERRORS = error_responses(401, 403, **{
    "400": INVALID_REQUEST,
    "404": "No such response is stored for this key: `response_not_found`.",
    "503": "The store cannot be used: `store_unavailable`.",
})  # fmt: skip
_STREAM_PARAMETERS: list[dict[str, Any]] = [
    *_ID,
    {"name": "stream", "in": "query", "schema": {"type": "boolean"},
     "description": "Server-sent events, of a response that was created with `background` and `stream`."},
    {"name": "starting_after", "in": "query", "schema": {"type": "integer", "minimum": 0},
     "description": "The `sequence_number` of the last event that the client has."},
]  # fmt: skip
PAGE_PARAMETERS: list[dict[str, Any]] = [
    *_ID,
    {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
     "description": "The number of items."},
    {"name": "order", "in": "query", "schema": {"type": "string", "enum": ["asc", "desc"], "default": "desc"},
     "description": "Oldest or newest first."},
    {"name": "after", "in": "query", "schema": {"type": "string"}, "description": "The id of the item before."},
]  # fmt: skip


def _create() -> dict[str, Any]:
    return {
        "summary": "Create a response",
        "description": (
            "The same guardrails as for chat completions. Calls of custom and namespace tools have their own item "
            "types and names. What no model server can do is dropped and reported in `x-forge-interventions`."
        ),
        "tags": ["responses"],
        "parameters": FORGE_PARAMETERS,
        "requestBody": _REQUEST,
        "responses": {
            "200": {
                **json_response(
                    "Response", "The response; with `stream`, server-sent events that end with response.completed, "
                    "response.incomplete or response.failed.", **{"text/event-stream": {"schema": {"type": "string"}}},
                ),
                "headers": FORGE_HEADERS,
            },
            **error_responses(400, 401, 403, 404, 408, 413, 415, 429, 502, 503, 504),
        },
    }  # fmt: skip


def _stored(summary: str, schema: str, parameters: list[dict[str, Any]] = _ID) -> dict[str, Any]:
    return {
        "summary": summary, "tags": ["responses"], "parameters": parameters,
        "responses": {"200": json_response(schema, "Done."), **_STORE_ERRORS},
    }  # fmt: skip


def _paths(prefix: str, suffix: str) -> dict[str, Any]:
    cancel = _stored("Cancel a response", "Response")
    cancel["description"] = "Stops a response in the background. One that has ended is returned as it is."
    get = _stored("Show a stored response", "Response", _STREAM_PARAMETERS)
    get["description"] = (
        "The state of a response in the background; with `stream=true` its events, past and future ones."
    )
    count = {
        "summary": "Count the tokens of a prompt", "tags": ["responses"], "requestBody": _REQUEST,
        "responses": {
            "200": json_response("ResponseInputTokens", "The size, estimated if the model server cannot count."),
            **error_responses(400, 401, 403, 404, 408, 413, 415, 502, 503, 504),
        },
    }  # fmt: skip
    operations: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
        "": {"post": ("create_response", _create())},
        "/input_tokens": {"post": ("count_response_input", count)},
        "/{id}": {
            "get": ("get_response", get),
            "delete": ("delete_response", _stored("Delete a stored response", "ResponseDeleted")),
        },
        "/{id}/input_items": {
            "get": ("list_response_input", _stored("List the input items", "ResponseItemList", PAGE_PARAMETERS))
        },
        "/{id}/cancel": {"post": ("cancel_response", cancel)},
    }
    return {
        f"{prefix}{path}": {
            method: {"operationId": f"{name}{suffix}", **operation} for method, (name, operation) in methods.items()
        }
        for path, methods in operations.items()
    }


PATHS: dict[str, Any] = _paths("/v1/responses", "") | _paths("/responses", "_without_v1")
