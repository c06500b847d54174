"""OpenAPI description of the routes whose bodies `wire` decodes.

The daemon does not validate requests against it: unknown fields and most known ones are passed to the model server.
"""

from __future__ import annotations

from typing import Any

_ERROR_DESCRIPTIONS = {
    400: (
        "The request is invalid (`param` names the field), or does not fit into the window: `context_length_exceeded`; "
        "or sampling.defaults is on and the model is unknown: `unsupported_model`."
    ),
    401: "The key is missing or wrong: one of server.api_keys is needed.",
    403: "The request comes from a web page or for a host name that is not allowed.",
    404: "No such model: `model_not_found`.",
    408: "The request did not arrive in time.",
    413: "The body is larger than server.max_body_mb or server.memory_mb allow, or has more than 250,000 JSON values.",
    415: "The body is compressed, or a form.",
    429: "The request queue is full; retry after `Retry-After` seconds.",
    502: (
        "The model server cannot be reached or failed (`backend_unreachable`, `backend_broke_off`, `backend_error`), "
        "the model did not make a required call (`tool_choice_unsatisfied`), its calls stayed invalid with "
        "guardrails.on_exhausted: error (`tool_call_invalid`), or its response was empty (`empty_answer`). Errors "
        "of the model server about the request keep their status."
    ),
    503: (
        "The daemon is shutting down (`stopping`), or the model server is loading, restarting or down "
        "(`backend_loading`, `backend_restarting`, `backend_down`), or the requested model could not be loaded "
        "(`model_not_loaded`), or requests fill server.memory_mb (`memory_full`)."
    ),
    504: "The model server sent nothing for backend.silence_seconds.",
}
_OUTCOME = {
    "x-request-id": "The id of the request: the client's own if it sent one.",
    "x-forge-outcome": "passthrough, clean, rescued, repaired, retried or exhausted.",
    "x-forge-attempts": "The number of attempts.",
    "x-forge-tokens-spent": "Tokens of all attempts, as far as the server reports them.",
    "x-forge-compacted": "How the context was compacted, with budget.overflow: compact.",
    "x-forge-marks": "Each intervention (rescue, repair, loop), with its form and place, and each unchecked call. In a"
    " guarded stream, a comment before [DONE] holds all of these headers but the first.",
}


def _errors(*statuses: int, **others: str) -> dict[str, Any]:
    body = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}
    descriptions = {**{str(status): _ERROR_DESCRIPTIONS[status] for status in statuses}, **others}
    return {status: {"description": description, "content": body} for status, description in descriptions.items()}


_OF_MODELS = _errors(401, 403, 504, **{
    "502": "The model server cannot be reached or failed.", "503": "The model server is loading or down.",
})  # fmt: skip
TOO_LARGE = _errors(413)
"""The error responses of every route that accepts a body."""


def _answer(schema: str, description: str, **more: Any) -> dict[str, Any]:
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}, **more}
    return {"description": description, "content": body}


def _object(description: str, required: list[str], /, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "description": description, "required": required, "properties": properties,
        "additionalProperties": True,
    }  # fmt: skip


def _text(description: str, *allowed: str) -> dict[str, Any]:
    return {"type": "string", "description": description, **({"enum": list(allowed)} if allowed else {})}


def _whole(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description}


def _list(description: str, items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "description": description, "items": items}


_FUNCTION = _object(
    "The function.", ["name"],
    name=_text("Its name."), description=_text("What it is for."),
    parameters={"description": "JSON Schema of its arguments; any valid schema.", "type": ["object", "boolean"]},
)  # fmt: skip
_USAGE = _object(
    "Tokens of the delivered attempt, for the prompt as the client sent it.", [],
    prompt_tokens=_whole(""), completion_tokens=_whole(""), total_tokens=_whole(""),
)  # fmt: skip
_WINDOW = "The context window in tokens."
SCHEMAS: dict[str, Any] = {
    "ChatMessage": _object(
        "A message of the conversation; other fields are passed on.", ["role"],
        role=_text("The author.", "system", "developer", "user", "assistant", "tool", "function"),
        content={
            "description": "Text, or parts (text, image_url, input_audio, file).", "type": ["string", "array", "null"],
        },
        tool_calls=_list("Calls that the assistant made.", _object("A call.", [])),
        tool_call_id=_text("The call whose result a tool message holds."),
        reasoning_content=_text("Reasoning; backend.reasoning decides which is passed on."),
        thinking_blocks=_list("Signed reasoning of an Anthropic model; send it back to keep it.", _object("One.", [])),
    ),
    "ChatCompletionRequest": _object(
        "An OpenAI chat completion request. Fields that are not listed are passed on to the model server.",
        ["messages"],
        model=_text("The name of the model; if only one is served, any name works."),
        messages={"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/ChatMessage"}},
        tools=_list(
            "Tools that the model may call. If there are any, the response is guarded.",
            _object("A tool.", ["type"], type=_text("", "function", "custom"), function=_FUNCTION),
        ),
        tool_choice={
            "description": "none, auto, required, or an object that names one or several tools; always enforced.",
            "type": ["string", "object"],
        },
        parallel_tool_calls={"type": "boolean", "description": "Whether one response may hold several calls."},
        stream={"type": "boolean", "description": "Server-sent events in place of one JSON object."},
        stream_options=_object("", [], include_usage={"type": "boolean"}),
        n={"type": "integer", "minimum": 1, "maximum": 128, "description": "The number of choices."},
        max_completion_tokens={"type": "integer", "minimum": 1, "description": "Lowered to what fits into the window."},
        max_tokens={"type": "integer", "minimum": 1, "description": "The former name of max_completion_tokens."},
        temperature={"type": "number"}, top_p={"type": "number"}, seed={"type": "integer"},
        stop={"type": ["string", "array", "null"]},
        return_progress={
            "type": "boolean", "description": "Whether llama-server streams its prompt processing progress.",
        },
        response_format=_object("text, json_object or json_schema.", []),
    ),
    "ChatCompletion": _object(
        "The response.", ["id", "object", "created", "model", "choices"],
        id=_text(""), object=_text("", "chat.completion"), created=_whole(""), model=_text("The name as requested."),
        choices=_list("", _object(
            "", ["index", "message", "finish_reason"],
            index=_whole(""), message={"$ref": "#/components/schemas/ChatMessage"},
            finish_reason=_text("stop, length, tool_calls, content_filter, or a value of the model server."),
        )),
        usage=_USAGE,
    ),
    "Model": _object(
        "A model. Its context window (the budget) is in each of the fields that clients read.", ["id", "object"],
        id=_text(""), object=_text("", "model"), created=_whole(""), owned_by=_text(""),
        aliases=_list("Its other names, if it has any.", {"type": "string"}),
        max_model_len=_whole(_WINDOW), context_length=_whole(_WINDOW), max_context=_whole(_WINDOW),
        meta=_object("", [], n_ctx=_whole(_WINDOW)),
    ),
    "ModelList": _object(
        "The models that are served.", ["object", "data"],
        object=_text("", "list"), data={"type": "array", "items": {"$ref": "#/components/schemas/Model"}},
    ),
    "Home": _object(
        "The daemon: name, version, state and links.", ["name", "version", "status", "links"],
        name=_text(""), version=_text(""), status=_text("The state of the model server: ok, loading or down."),
        links={"type": "object", "description": "Paths, each with its purpose.", "additionalProperties": True},
    ),
    "Health": _object("The state.", ["status"], status=_text(""), detail=_text("")),
    "Unhealthy": _object("The reason, as llama-server writes it.", ["error"], error=_object("", [], message=_text(""))),
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
    "parameters": [
        {"name": "x-forge-guardrails", "in": "header", "required": False, "schema": {"type": "string"},
         "description": "`off`, `on`, or a list of respond, rescue, validate, retry, loops."},
        {"name": "x-request-id", "in": "header", "required": False, "schema": {"type": "string"},
         "description": "The client's own request id; it appears in the response and the logs."},
    ],
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ChatCompletionRequest"}}},
    },
    "responses": {
        "200": {
            **_answer(
                "ChatCompletion", "The response; with `stream`, server-sent events that end with [DONE].",
                **{"text/event-stream": {"schema": {"type": "string"}}},
            ),
            "headers": {name: {"description": words, "schema": {"type": "string"}} for name, words in _OUTCOME.items()},
        },
        **_errors(400, 401, 403, 404, 408, 413, 415, 429, 502, 503, 504),
    },
}  # fmt: skip


def _chat(operation: str) -> dict[str, Any]:
    return {"post": {"operationId": operation, **_CHAT}}


def _get(
    operation: str, summary: str, answers: dict[str, Any], tag: str, parameters: list[Any] | None = None
) -> dict[str, Any]:
    described = {"operationId": operation, "summary": summary, "tags": [tag], "responses": answers}
    return {"get": {**described, **({"parameters": parameters} if parameters else {})}}


PATHS: dict[str, Any] = {
    "/v1/chat/completions": _chat("chat_completions"),
    "/chat/completions": _chat("chat_completions_without_v1"),
    "/v1/models": _get(
        "list_models", "List the models", {"200": _answer("ModelList", "The models."), **_OF_MODELS},
        "models",
    ),
    "/v1/models/{id}": _get(
        "get_model", "Show one model", {"200": _answer("Model", "The model."), **_OF_MODELS, **_errors(404)}, "models",
        [{"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}],
    ),
    "/": _get(
        "home", "Show name, version, state and links",
        {"200": _answer("Home", "JSON, or a page for browsers.", **{"text/html": {"schema": {"type": "string"}}})},
        "health",
    ),
    "/health": _get(
        "health", "Check the model server",
        {"200": _answer("Health", "The model server is ready."),
         "503": _answer("Unhealthy", "The model server is loading or down.")}, "health",
    ),
    "/healthz": _get("alive", "Check the daemon", {"200": _answer("Health", "The daemon is running.")}, "health"),
    "/readyz": _get(
        "ready", "Check whether requests can be answered now",
        {"200": _answer("Health", "Requests can be answered."),
         "503": _answer("Health", "Requests cannot be answered yet.")}, "health",
    ),
}  # fmt: skip
