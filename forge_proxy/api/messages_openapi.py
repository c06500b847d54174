"""The OpenAPI description of the Messages API."""

from __future__ import annotations

from typing import Any

from forge_proxy.api.openapi import (
    FORGE_HEADERS,
    FORGE_PARAMETERS,
    array,
    error_responses,
    integer,
    json_response,
    object_schema,
    string,
)

_CONTENT = {
    "description": "Text, or blocks (text, image, document, thinking, tool_use, tool_result).",
    "type": ["string", "array"],
}
_USAGE = object_schema(
    "Tokens; the prompt's are those of the prompt as the client sent it.", ["input_tokens", "output_tokens"],
    input_tokens=integer("Prompt tokens that were not cached."), cache_read_input_tokens=integer("Cached ones."),
    cache_creation_input_tokens=integer(""), output_tokens=integer("")
)  # fmt: skip
_PROMPT: dict[str, Any] = {
    "model": string("The name of the model; if only one is served, any name works."),
    "messages": array(
        "The conversation.",
        object_schema(
            "A message.", ["role", "content"], role=string("The author.", "user", "assistant", "system"),
            content=_CONTENT,
        ),
    ),
    "system": {**_CONTENT, "description": "The system prompt. Claude Code's attribution block is omitted."},
    "tools": array(
        "Tools that the model may call. If there are any, the response is guarded. Tools that run on Anthropic's"
        " servers are dropped.",
        object_schema(
            "A tool.", ["name"], name=string("Its name."), description=string("What it is for."),
            input_schema=object_schema("JSON Schema of its arguments.", []),
            type=string("custom, or a client tool such as bash_20250124."),
        ),
    ),
    "tool_choice": object_schema(
        "Which tools may or must be called; always enforced.", ["type"],
        type=string("", "auto", "any", "tool", "none"), name=string("The tool."),
        disable_parallel_tool_use={"type": "boolean"},
    ),
    "thinking": object_schema("Whether the model reasons: enabled, disabled, or adaptive.", []),
    "output_config": object_schema("The effort, and the JSON Schema of the response (format).", []),
}  # fmt: skip
SCHEMAS: dict[str, Any] = {
    "MessagesRequest": object_schema(
        "A Messages request. What no local model server can do is dropped and reported in x-forge-interventions.",
        ["model", "messages", "max_tokens"],
        **_PROMPT,
        max_tokens={"type": "integer", "minimum": 0, "description": "Lowered to what fits into the window."},
        stream={"type": "boolean", "description": "Server-sent events in place of one JSON object."},
        stop_sequences=array("", string("")),
        temperature={"type": "number"}, top_p={"type": "number"}, top_k={"type": "integer"},
        metadata=object_schema("user_id is passed on.", []),
    ),
    "Message": object_schema(
        "The response.", ["id", "type", "role", "model", "content", "stop_reason", "usage"],
        id=string(""), type=string("", "message"), role=string("", "assistant"),
        model=string("The name as requested."),
        content=array("Blocks: thinking, text, tool_use.", object_schema("A block.", ["type"], type=string(""))),
        stop_reason=string(
            "", "end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "model_context_window_exceeded",
        ),
        stop_sequence={"type": ["string", "null"]},
        usage=_USAGE,
    ),
    "TokenCountRequest": object_schema("The prompt of a Messages request.", ["messages"], **_PROMPT),
    "TokenCount": object_schema(
        "The size of a prompt.", ["input_tokens"],
        input_tokens=integer("Exact if the model server counts tokens; otherwise x-forge-interventions says so."),
    ),
    "MessagesError": object_schema(
        "An error in Anthropic's format.", ["type", "error"], type=string("", "error"),
        error=object_schema("", ["type", "message"], type=string(""), message=string("")),
        request_id={"type": ["string", "null"]},
    ),
}  # fmt: skip


def _errors(*statuses: int) -> dict[str, Any]:
    described = error_responses(*statuses)
    body = {"application/json": {"schema": {"$ref": "#/components/schemas/MessagesError"}}}
    return {status: {**response, "content": body} for status, response in described.items()}


def _body(schema: str) -> dict[str, Any]:
    return {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }


PATHS: dict[str, Any] = {
    "/v1/messages": {
        "post": {
            "operationId": "messages",
            "summary": "Create a message",
            "description": (
                "Anthropic's Messages API on any model server, with the guardrails of chat completions. A stream has "
                "the events of that API; an error in it is an `error` event. See the page on Claude Code."
            ),
            "tags": ["messages"],
            "parameters": FORGE_PARAMETERS,
            "requestBody": _body("MessagesRequest"),
            "responses": {
                "200": {
                    **json_response(
                        "Message", "The response; with `stream`, server-sent events.",
                        **{"text/event-stream": {"schema": {"type": "string"}}},
                    ),
                    "headers": FORGE_HEADERS,
                },
                **_errors(400, 401, 403, 404, 408, 413, 415, 429, 502, 503, 504),
            },
        }
    },
    "/v1/messages/count_tokens": {
        "post": {
            "operationId": "count_tokens",
            "summary": "Count the tokens of a prompt",
            "tags": ["messages"],
            "parameters": FORGE_PARAMETERS[1:],
            "requestBody": _body("TokenCountRequest"),
            "responses": {
                "200": json_response("TokenCount", "The size of the prompt."),
                **_errors(400, 401, 403, 404, 408, 413, 415, 502, 503),
            },
        }
    },
}  # fmt: skip
