"""The routes of Ollama's API as an OpenAPI document describes them."""

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

_NDJSON = {"application/x-ndjson": {"schema": {"type": "string"}}}
_OPTIONS = object_schema(
    "`temperature`, `top_k`, `top_p`, `min_p`, `num_predict`, `seed`, `stop`, `repeat_penalty`, …. Options that only "
    "Ollama has, such as `num_ctx`, are dropped for other model servers.", [],
)  # fmt: skip
_SHARED: dict[str, Any] = {
    "model": string("The name of the model; if only one is served, any name works."),
    "stream": {"type": "boolean", "description": "Lines of JSON, the default, or one JSON object."},
    "options": _OPTIONS,
    "format": {"description": "`json`, or a JSON Schema.", "type": ["string", "object", "null"]},
    "think": {
        "description": "Whether the model produces reasoning, or how much.",
        "type": ["boolean", "string", "null"],
    },
    "keep_alive": {"description": "How long an Ollama keeps the model loaded.", "type": ["string", "number", "null"]},
}
_MESSAGE = object_schema(
    "A message of the conversation.", ["role"],
    role=string("The author.", "system", "user", "assistant", "tool"), content=string("Text."),
    images=array("Images in base64.", {"type": "string"}), thinking=string("Reasoning."),
    tool_calls=array("Calls that the assistant made; their arguments are objects.", object_schema("A call.", [])),
    tool_name=string("The tool whose result a tool message holds."),
)  # fmt: skip
_LAST: dict[str, Any] = {
    "model": string("The name as requested."), "created_at": string("The time, as in RFC 3339."),
    "done": {"type": "boolean", "description": "Whether this is the last line."},
    "done_reason": string("stop, length, load, unload, or a value of the model server."),
    "total_duration": integer("Nanoseconds."), "load_duration": integer("Nanoseconds."),
    "prompt_eval_count": integer("Tokens of the prompt."), "prompt_eval_duration": integer("Nanoseconds."),
    "eval_count": integer("Tokens of the response."), "eval_duration": integer("Nanoseconds."),
}  # fmt: skip
OLLAMA_SCHEMAS: dict[str, Any] = {
    "OllamaMessage": _MESSAGE,
    "OllamaChatRequest": object_schema(
        "A chat request of Ollama's API. Without messages it loads the model.", [],
        messages={"type": "array", "items": {"$ref": "#/components/schemas/OllamaMessage"}},
        tools=array(
            "Tools that the model may call. If there are any, the response is guarded.", object_schema("A tool.", [])
        ),
        **_SHARED,
    ),
    "OllamaGenerateRequest": object_schema(
        "A prompt. raw, suffix, template and context work with an Ollama only.", [],
        prompt=string("The prompt; without one, the model is loaded."), system=string("The system message."),
        images=array("Images in base64.", {"type": "string"}), **_SHARED,
    ),
    "OllamaChatResponse": object_schema(
        "The response, or a line of it.", ["message", "done"],
        message={"$ref": "#/components/schemas/OllamaMessage"}, **_LAST,
    ),
    "OllamaGenerateResponse": object_schema(
        "The response, or a line of it.", ["response", "done"],
        response=string("Text."), thinking=string("Reasoning."), **_LAST,
    ),
    "OllamaObject": object_schema("An object of Ollama's API.", []),
}  # fmt: skip
_BODY = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/OllamaObject"}}}}
_ENGINE_ERRORS = error_responses(400, 401, 403, 404, 408, 413, 415, 429, 502, 503, 504)


def _describe_post(name: str, summary: str, schema: str, description: str) -> dict[str, Any]:
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}Request"}}}
    response = json_response(f"{schema}Response", "Lines of JSON, or one object with `stream: false`.", **_NDJSON)
    return {"post": {
        "operationId": name, "summary": summary, "description": description, "tags": ["ollama"],
        "parameters": FORGE_PARAMETERS, "requestBody": {"required": True, "content": body},
        "responses": {"200": {**response, "headers": FORGE_HEADERS}, **_ENGINE_ERRORS},
    }}  # fmt: skip


def _operation(name: str, summary: str, *statuses: int, has_body: bool = True) -> dict[str, Any]:
    responses = {"200": json_response("OllamaObject", "The response."), **error_responses(401, 403, *statuses)}
    operation = {"operationId": name, "summary": summary, "tags": ["ollama"], "responses": responses}
    if has_body:
        operation |= {"requestBody": _BODY, "responses": {**responses, **error_responses(408, 413)}}
    return operation


CHAT_PATHS = {
    "/api/chat": _describe_post(
        "ollama_chat", "Chat, in Ollama's format", "OllamaChat",
        "Like `/v1/chat/completions`. The last line has `x-forge-outcome`, `x-forge-attempts` and "
        "`x-forge-interventions` if the response was guarded.",
    )
}  # fmt: skip
GENERATE_PATHS = {
    "/api/generate": _describe_post("ollama_generate", "Respond to a prompt, in Ollama's format", "OllamaGenerate", "")
}
_MODEL_SERVER = (502, 503, 504)
_ADMINISTRATION = (501, *_MODEL_SERVER)
OLLAMA_PATHS: dict[str, Any] = {
    "/api/version": {"get": _operation("ollama_version", "Show the version of Ollama's API", has_body=False)},
    "/api/tags": {"get": _operation("ollama_tags", "List the models", *_MODEL_SERVER, has_body=False)},
    "/api/ps": {"get": _operation("ollama_ps", "List the loaded models", *_MODEL_SERVER, has_body=False)},
    "/api/show": {"post": _operation("ollama_show", "Show a model", 400, 404, *_MODEL_SERVER)},
    "/api/embed": {
        "post": _operation("ollama_embed", "Compute embeddings", 400, 404, 429, 501, *_MODEL_SERVER),
    },
    "/api/embeddings": {
        "post": _operation("ollama_embeddings", "Compute one embedding", 400, 404, 429, 501, *_MODEL_SERVER),
    },
    "/api/pull": {"post": _operation("ollama_pull", "Download a model, if the backend is an Ollama", *_ADMINISTRATION)},
    "/api/push": {"post": _operation("ollama_push", "Upload a model, if the backend is an Ollama", *_ADMINISTRATION)},
    "/api/create": {
        "post": _operation("ollama_create", "Create a model, if the backend is an Ollama", *_ADMINISTRATION)
    },
    "/api/copy": {"post": _operation("ollama_copy", "Copy a model, if the backend is an Ollama", *_ADMINISTRATION)},
    "/api/delete": {
        "delete": _operation("ollama_delete", "Delete a model, if the backend is an Ollama", *_ADMINISTRATION),
    },
    "/api/blobs/{digest}": {
        "head": _operation("ollama_has_blob", "Check whether an Ollama has a file", *_ADMINISTRATION, has_body=False),
        "post": _operation("ollama_blob", "Upload a file, if the backend is an Ollama", 400, *_ADMINISTRATION),
    },
}
for _one in OLLAMA_PATHS["/api/blobs/{digest}"].values():
    _one["parameters"] = [
        {"name": "digest", "in": "path", "required": True, "description": "sha256: and 64 hexadecimal digits.",
         "schema": {"type": "string", "minLength": 1}},
    ]  # fmt: skip
