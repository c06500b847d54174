"""OpenAPI descriptions: building blocks for the client APIs, and the routes that belong to none of them.

The routes of a client API are described by its own module. The daemon does not validate requests against these
descriptions: unknown fields and most known ones are passed to the model server.
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
    501: "The model server has no such route: `route_not_supported`.",
    503: (
        "The daemon is shutting down (`stopping`), or the model server is loading, restarting or down "
        "(`backend_loading`, `backend_restarting`, `backend_down`), or the requested model could not be loaded "
        "(`model_not_loaded`), or requests fill server.memory_mb (`memory_full`)."
    ),
    504: "The model server sent nothing for backend.silence_seconds.",
}
INVALID_REQUEST = "The request is invalid; `param` names the field."
"""The description of status 400 for routes that call no model."""


FORGE_HEADERS: dict[str, Any] = {
    name: {"description": text, "schema": {"type": "string"}}
    for name, text in {
        "x-request-id": "The id of the request: the client's own if it sent one.",
        "x-forge-outcome": "passthrough, clean, rescued, repaired, retried or exhausted.",
        "x-forge-attempts": "The number of attempts.",
        "x-forge-tokens-spent": "Tokens of all attempts, as far as the server reports them.",
        "x-forge-compacted": "How the context was compacted, with budget.overflow: compact.",
        "x-forge-interventions": "Each intervention (rescue, repair, loop) with its form and position, each"
        " unchecked call, and the terminal tool because of which respond was not offered. In a guarded stream, a"
        " comment before [DONE] contains all of these headers but the first.",
        "x-forge-marks": "The former name of x-forge-interventions, sent until 0.3.",
    }.items()
}
"""The headers of each response of the engine."""
FORGE_PARAMETERS: list[dict[str, Any]] = [
    {"name": "x-forge-guardrails", "in": "header", "required": False, "schema": {"type": "string"},
     "description": "`off`, `on`, or a list of respond, rescue, validate, retry, loops, repeats, early_end."},
    {"name": "x-forge-priority", "in": "header", "required": False,
     "schema": {"type": "string", "enum": ["interactive", "background"], "default": "interactive"},
     "description": "`background` requests wait for interactive ones; they are never rejected with 429."},
    {"name": "x-request-id", "in": "header", "required": False, "schema": {"type": "string"},
     "description": "The client's own request id; it appears in the response and the logs."},
]  # fmt: skip
"""The request headers of each route that the engine answers."""


def error_responses(*statuses: int, **others: str) -> dict[str, Any]:
    """Describe the errors of a route: by status, optionally with a description."""
    body = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}
    descriptions = {**{str(status): _ERROR_DESCRIPTIONS[status] for status in statuses}, **others}
    return {status: {"description": description, "content": body} for status, description in descriptions.items()}


_MODEL_ERRORS = error_responses(401, 403, 504, **{
    "502": "The model server cannot be reached or failed.", "503": "The model server is loading or down.",
})  # fmt: skip
TOO_LARGE = error_responses(413)
"""The error responses of every route that accepts a body."""


def json_response(schema: str, description: str, **more: Any) -> dict[str, Any]:
    """Describe a JSON response; `more` are other content types."""
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}, **more}
    return {"description": description, "content": body}


def object_schema(description: str, required: list[str], /, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object, which may have other properties."""
    return {
        "type": "object", "description": description, "required": required, "properties": properties,
        "additionalProperties": True,
    }  # fmt: skip


def string(description: str, *allowed: str) -> dict[str, Any]:
    """Return the schema of a string, or of one of the allowed strings."""
    return {"type": "string", "description": description, **({"enum": list(allowed)} if allowed else {})}


def integer(description: str) -> dict[str, Any]:
    """Return the schema of an integer."""
    return {"type": "integer", "description": description}


def array(description: str, items: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a list."""
    return {"type": "array", "description": description, "items": items}


_WINDOW = "The context window in tokens."
_TEXT_OR_NULL = {"anyOf": [{"type": "string"}, {"type": "null"}]}
SCHEMAS: dict[str, Any] = {
    "ErrorBody": object_schema(
        "An error in OpenAI's format.", ["error"], error={"$ref": "#/components/schemas/ErrorDetail"},
    ),
    "ErrorDetail": object_schema(
        "The error.", ["message", "type", "param", "code"], message=string(""), type=string(""),
        param={**_TEXT_OR_NULL, "description": "The field that is wrong."}, code=_TEXT_OR_NULL,
    ),
    "Model": object_schema(
        "A model. Its context window (the budget) is in each of the fields that clients read.", ["id", "object"],
        id=string(""), object=string("", "model"), created=integer(""), owned_by=string(""),
        aliases=array("Its other names, if it has any.", {"type": "string"}),
        max_model_len=integer(_WINDOW), context_length=integer(_WINDOW), max_context=integer(_WINDOW),
        meta=object_schema("", [], n_ctx=integer(_WINDOW)),
    ),
    "ModelList": object_schema(
        "The models that are served.", ["object", "data"],
        object=string("", "list"), data={"type": "array", "items": {"$ref": "#/components/schemas/Model"}},
        models=array("The model catalog that Codex reads, with `client_version` only.", {"type": "object"}),
    ),
    "Home": object_schema(
        "The daemon: name, version, state and links.", ["name", "version", "status", "links"],
        name=string(""), version=string(""), status=string("The state of the model server: ok, loading or down."),
        links={"type": "object", "description": "Paths, each with its purpose.", "additionalProperties": True},
    ),
    "Health": object_schema("The state.", ["status"], status=string(""), detail=string("")),
    "Unhealthy": object_schema(
        "The reason, as llama-server writes it.", ["error"], error=object_schema("", [], message=string("")),
    ),
}  # fmt: skip


def _get(
    name: str, summary: str, responses: dict[str, Any], tag: str, parameters: list[Any] | None = None
) -> dict[str, Any]:
    operation = {"operationId": name, "summary": summary, "tags": [tag], "responses": responses}
    return {"get": {**operation, **({"parameters": parameters} if parameters else {})}}


PATHS: dict[str, Any] = {
    "/v1/models": _get(
        "list_models", "List the models", {"200": json_response("ModelList", "The models."), **_MODEL_ERRORS},
        "models",
        [{"name": "client_version", "in": "query", "required": False, "schema": {"type": "string"},
          "description": "The version of Codex, which sends it. The response then contains `models` as well."}],
    ),
    "/v1/models/{id}": _get(
        "get_model", "Show one model",
        {"200": json_response("Model", "The model."), **_MODEL_ERRORS, **error_responses(404)}, "models",
        [{"name": "id", "in": "path", "required": True, "description": "The name of the model.",
          "schema": {"type": "string", "minLength": 1}}],
    ),
    "/": _get(
        "home", "Show name, version, state and links",
        {"200": json_response(
            "Home", "JSON, or a page for browsers.", **{"text/html": {"schema": {"type": "string"}}},
        )},
        "health",
    ),
    "/health": _get(
        "health", "Check the model server",
        {"200": json_response("Health", "The model server is ready."),
         "503": json_response("Unhealthy", "The model server is loading or down.")}, "health",
    ),
    "/healthz": _get("alive", "Check the daemon", {"200": json_response("Health", "The daemon is running.")}, "health"),
    "/readyz": _get(
        "ready", "Check whether requests can be answered now",
        {"200": json_response("Health", "Requests can be answered."),
         "503": json_response("Health", "Requests cannot be answered yet.")}, "health",
    ),
}  # fmt: skip
