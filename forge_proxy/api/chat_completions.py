"""OpenAI's chat completions API: `POST /v1/chat/completions`, its codec and its OpenAPI description."""

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
from forge_proxy.api.surface import Surface
from forge_proxy.wire.clients.chat_completions.encoder import DecodedChatRequest
from forge_proxy.wire.clients.chat_completions.errors import encode_error

_FUNCTION = object_schema(
    "The function.", ["name"],
    name=string("Its name."), description=string("What it is for."),
    parameters={"description": "JSON Schema of its arguments; any valid schema.", "type": ["object", "boolean"]},
)  # fmt: skip
_USAGE = object_schema(
    "Tokens of the delivered attempt, for the prompt as the client sent it.", [],
    prompt_tokens=integer(""), completion_tokens=integer(""), total_tokens=integer(""),
)  # fmt: skip
_SCHEMAS: dict[str, Any] = {
    "ChatMessage": object_schema(
        "A message of the conversation; other fields are passed on.", ["role"],
        role=string("The author.", "system", "developer", "user", "assistant", "tool", "function"),
        content={
            "description": "Text, or parts (text, image_url, input_audio, file).", "type": ["string", "array", "null"],
        },
        tool_calls=array("Calls that the assistant made.", object_schema("A call.", [])),
        tool_call_id=string("The call whose result a tool message holds."),
        reasoning_content=string("Reasoning; backend.reasoning decides which is passed on."),
        thinking_blocks=array(
            "Signed reasoning of an Anthropic model; send it back to keep it.", object_schema("One.", [])
        ),
    ),
    "ChatCompletionRequest": object_schema(
        "An OpenAI chat completion request. Fields that are not listed are passed on to the model server.",
        ["messages"],
        model=string("The name of the model; if only one is served, any name works."),
        messages={"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/ChatMessage"}},
        tools=array(
            "Tools that the model may call. If there are any, the response is guarded.",
            object_schema("A tool.", ["type"], type=string("", "function", "custom"), function=_FUNCTION),
        ),
        tool_choice={
            "description": "`none`, `auto`, `required`, or an object that names one or several tools; always enforced.",
            "type": ["string", "object"],
        },
        parallel_tool_calls={"type": "boolean", "description": "Whether one response may contain several calls."},
        stream={"type": "boolean", "description": "Server-sent events in place of one JSON object."},
        stream_options=object_schema("", [], include_usage={"type": "boolean"}),
        n={"type": "integer", "minimum": 1, "maximum": 128, "description": "The number of choices."},
        max_completion_tokens={"type": "integer", "minimum": 1, "description": "Lowered to what fits into the window."},
        max_tokens={"type": "integer", "minimum": 1, "description": "The former name of max_completion_tokens."},
        temperature={"type": "number"}, top_p={"type": "number"}, seed={"type": "integer"},
        stop={"type": ["string", "array", "null"]},
        return_progress={
            "type": "boolean", "description": "Whether llama-server streams its prompt processing progress.",
        },
        response_format=object_schema("`text`, `json_object` or `json_schema`.", []),
    ),
    "ChatCompletion": object_schema(
        "The response.", ["id", "object", "created", "model", "choices"],
        id=string(""), object=string("", "chat.completion"), created=integer(""),
        model=string("The name as requested."),
        choices=array("", object_schema(
            "", ["index", "message", "finish_reason"],
            index=integer(""), message={"$ref": "#/components/schemas/ChatMessage"},
            finish_reason=string("stop, length, tool_calls, content_filter, or a value of the model server."),
        )),
        usage=_USAGE,
    ),
}  # fmt: skip

_CHAT: dict[str, Any] = {
    "summary": "Create a chat completion",
    "description": (
        "If the request offers tools, the daemon recovers calls that the model wrote as text, checks them against the "
        "tools' schemas, repairs them, and retries the request if it has to. Without tools, request and response pass "
        "through unchanged. `x-forge-guardrails` narrows the guardrails for this request: `off`, or a list of those "
        "that stay on."
    ),
    "tags": ["chat"],
    "parameters": FORGE_PARAMETERS,
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ChatCompletionRequest"}}},
    },
    "responses": {
        "200": {
            **json_response(
                "ChatCompletion", "The response; with `stream`, server-sent events that end with [DONE].",
                **{"text/event-stream": {"schema": {"type": "string"}}},
            ),
            "headers": FORGE_HEADERS,
        },
        **error_responses(400, 401, 403, 404, 408, 413, 415, 429, 502, 503, 504),
    },
}  # fmt: skip


def _operation(name: str) -> dict[str, Any]:
    return {"post": {"operationId": name, **_CHAT}}


CHAT_COMPLETIONS = Surface(
    name="chat_completions",
    routes=("/v1/chat/completions", "/chat/completions"),
    prefixes=("/v1/chat", "/chat"),
    decode_request=DecodedChatRequest.decode,
    encode_error=encode_error,
    openapi_paths={
        "/v1/chat/completions": _operation("chat_completions"),
        "/chat/completions": _operation("chat_completions_without_v1"),
    },
    openapi_schemas=_SCHEMAS,
)
