"""The routes whose bodies `wire` reads, as OpenAPI: for people and for tools that read such descriptions.

Nothing is checked by it: unknown fields are passed on to the model server, and so are most of the known ones.
"""

from __future__ import annotations

from typing import Any

_ERROR_WORDS = {
    400: (
        "The request is wrong (`param` names the field), or does not fit into the window: `context_length_exceeded`; "
        "or sampling.defaults is on and nothing is known of the model: `unsupported_model`."
    ),
    401: "A key is needed: one of server.api_keys.",
    403: "Not from there: a foreign page or host.",
    404: "No such model: `model_not_found`.",
    408: "The request did not arrive in time.",
    413: "The body is larger than server.max_body_mb or server.memory_mb allow, or has more than 250,000 JSON values.",
    415: "The body is compressed, or a form.",
    429: "Too many wait for the model server; `Retry-After` says when to come again.",
    502: (
        "The model server cannot be reached or failed (`backend_unreachable`, `backend_broke_off`, `backend_error`), a "
        "demanded call did not come (`tool_choice_unsatisfied`), calls stayed invalid with guardrails.on_exhausted: "
        "error (`tool_call_invalid`), or there was no answer (`empty_answer`). Other errors of the model server keep "
        "its own status."
    ),
    503: (
        "The daemon is stopping (`stopping`), or the model server is loading, restarting or down (`backend_loading`, "
        "`backend_restarting`, `backend_down`), or this one of several models could not be loaded "
        "(`model_not_loaded`), or requests fill server.memory_mb (`memory_full`)."
    ),
    504: "The model server said nothing for backend.silence_seconds.",
}
_OUTCOME = {
    "x-request-id": "The id of the request, the caller's own where it sent one.",
    "x-forge-outcome": "passthrough, clean, rescued, repaired, retried or exhausted.",
    "x-forge-attempts": "How often the model was asked.",
    "x-forge-tokens-spent": "Tokens of all attempts, as far as the server tells.",
    "x-forge-compacted": "How the history was shortened that was over the budget, with budget.overflow: compact.",
    "x-forge-marks": "Each rescue, repair and loop, with its form and place, and each unchecked call. In a guarded"
    " stream all but the first of these come in a comment before [DONE].",
}


def _errors(*statuses: int, **words: str) -> dict[str, Any]:
    body = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}
    told = {**{str(status): _ERROR_WORDS[status] for status in statuses}, **words}
    return {status: {"description": description, "content": body} for status, description in told.items()}


_OF_MODELS = _errors(401, 403, 504, **{
    "502": "The model server cannot be reached or failed.", "503": "The model server is loading or down.",
})  # fmt: skip
TOO_LARGE = _errors(413)
"""Of every route that takes a body."""


def _answer(schema: str, words: str, **more: Any) -> dict[str, Any]:
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}, **more}
    return {"description": words, "content": body}


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
    "Tokens of the delivered attempt, against the caller's own prompt.", [],
    prompt_tokens=_whole(""), completion_tokens=_whole(""), total_tokens=_whole(""),
)  # fmt: skip
SCHEMAS: dict[str, Any] = {
    "ChatMessage": _object(
        "A message of the conversation; unknown fields are passed on.", ["role"],
        role=_text("Who says it.", "system", "developer", "user", "assistant", "tool", "function"),
        content={
            "description": "Text, or parts (text, image_url, input_audio, file).", "type": ["string", "array", "null"],
        },
        tool_calls=_list("Calls that the assistant made.", _object("A call.", [])),
        tool_call_id=_text("Which call a tool message answers."),
        reasoning_content=_text("Thoughts; backend.reasoning says which are passed on."),
        thinking_blocks=_list("Signed thoughts of an Anthropic model; sent back they are kept.", _object("One.", [])),
    ),
    "ChatCompletionRequest": _object(
        "A chat completion request as OpenAI has it. Fields that are not listed are passed on to the model server.",
        ["messages"],
        model=_text("Whose name; with one model served, any will do."),
        messages={"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/ChatMessage"}},
        tools=_list(
            "Tools that the model may call. With tools the answer is guarded.",
            _object("A tool.", ["type"], type=_text("", "function", "custom"), function=_FUNCTION),
        ),
        tool_choice={
            "description": "none, auto, required, or an object that names one or several tools; held on every backend.",
            "type": ["string", "object"],
        },
        parallel_tool_calls={"type": "boolean", "description": "Whether one answer may hold several calls."},
        stream={"type": "boolean", "description": "Server-sent events in place of one JSON object."},
        stream_options=_object("", [], include_usage={"type": "boolean"}),
        n={"type": "integer", "minimum": 1, "maximum": 128, "description": "How many answers."},
        max_completion_tokens={"type": "integer", "minimum": 1, "description": "Lowered to the room in the window."},
        max_tokens={"type": "integer", "minimum": 1, "description": "The same, under its old name."},
        temperature={"type": "number"}, top_p={"type": "number"}, seed={"type": "integer"},
        stop={"type": ["string", "array", "null"]},
        return_progress={
            "type": "boolean", "description": "A llama-server's own events on how far it has read the prompt.",
        },
        response_format=_object("text, json_object or json_schema.", []),
    ),
    "ChatCompletion": _object(
        "The answer.", ["id", "object", "created", "model", "choices"],
        id=_text(""), object=_text("", "chat.completion"), created=_whole(""), model=_text("As it was asked for."),
        choices=_list("", _object(
            "", ["index", "message", "finish_reason"],
            index=_whole(""), message={"$ref": "#/components/schemas/ChatMessage"},
            finish_reason=_text("stop, length, tool_calls, content_filter, or the server's own."),
        )),
        usage=_USAGE,
    ),
    "Model": _object(
        "A model. Its window, which is its budget, stands in each of the fields that clients read.", ["id", "object"],
        id=_text(""), object=_text("", "model"), created=_whole(""), owned_by=_text(""),
        aliases=_list("Other names of it, where it has some.", {"type": "string"}),
        max_model_len=_whole("The window."), context_length=_whole("The window."), max_context=_whole("The window."),
        meta=_object("", [], n_ctx=_whole("The window.")),
    ),
    "ModelList": _object(
        "The models that are served.", ["object", "data"],
        object=_text("", "list"), data={"type": "array", "items": {"$ref": "#/components/schemas/Model"}},
    ),
    "Home": _object(
        "What this is.", ["name", "version", "status", "links"],
        name=_text(""), version=_text(""), status=_text("Of the model server."),
        links={"type": "object", "description": "Paths, and what they are for.", "additionalProperties": True},
    ),
    "Health": _object("How it is.", ["status"], status=_text(""), detail=_text("")),
    "Unhealthy": _object("Why not, as llama-server says it.", ["error"], error=_object("", [], message=_text(""))),
}  # fmt: skip

_CHAT: dict[str, Any] = {
    "summary": "Ask the model",
    "description": (
        "Guarded when tools are offered: what the model writes instead of a call is read, checked against the tools' "
        "schemas, mended or asked again. Without tools the request and its answer pass through unchanged. "
        "`x-forge-guardrails` narrows the guardrails for this request: `off`, or a list of those that stay on."
    ),
    "tags": ["chat"],
    "parameters": [
        {"name": "x-forge-guardrails", "in": "header", "required": False, "schema": {"type": "string"},
         "description": "`off`, `on`, or a list of respond, rescue, validate, retry, loops."},
        {"name": "x-request-id", "in": "header", "required": False, "schema": {"type": "string"},
         "description": "The caller's own id, which answers and logs then have."},
    ],
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ChatCompletionRequest"}}},
    },
    "responses": {
        "200": {
            **_answer(
                "ChatCompletion", "The answer; with `stream` as server-sent events that end with [DONE].",
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
        "list_models", "The models", {"200": _answer("ModelList", "All of them."), **_OF_MODELS},
        "models",
    ),
    "/v1/models/{id}": _get(
        "get_model", "One model", {"200": _answer("Model", "It."), **_OF_MODELS, **_errors(404)}, "models",
        [{"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}],
    ),
    "/": _get(
        "home", "Name, version, state and links",
        {"200": _answer("Home", "JSON, or a page for browsers.", **{"text/html": {"schema": {"type": "string"}}})},
        "health",
    ),
    "/health": _get(
        "health", "Whether a model answers, as llama-server says it",
        {"200": _answer("Health", "It does."), "503": _answer("Unhealthy", "It is loading or down.")}, "health",
    ),
    "/healthz": _get("alive", "Whether the process answers", {"200": _answer("Health", "It does.")}, "health"),
    "/readyz": _get(
        "ready", "Whether a request would be answered now",
        {"200": _answer("Health", "It would."), "503": _answer("Health", "It would not.")}, "health",
    ),
}  # fmt: skip
