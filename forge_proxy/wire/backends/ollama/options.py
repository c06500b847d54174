"""Converts fields of an OpenAI request to Ollama's `options` and `format`, and finds those without an equivalent."""

from __future__ import annotations

from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.backends.openai.reasoning import read_think

_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "repeat_penalty": "repeat_penalty",
    "repetition_penalty": "repeat_penalty",  # vLLM's name for it
    "repeat_last_n": "repeat_last_n",
    "n_predict": "num_predict",  # llama.cpp's
    "max_tokens": "num_predict",
    "max_completion_tokens": "num_predict",
}
_NATIVE = ("keep_alive", "logprobs", "top_logprobs")
"""Fields with the same name in both APIs."""
_ENCODED = frozenset({*_OPTIONS, *_NATIVE, "model", "messages", "stream", "stop", "tools", "options", "format"})
_HANDLED_HERE = frozenset({"stream_options", "tool_choice", "parallel_tool_calls"})


def encode_options(body: JsonObject, defaults: JsonObject, room: int | None) -> dict[str, Json]:
    """Return the `options` for a request: its own `options`, overridden by the equivalent OpenAI fields.

    `defaults` are the sampling parameters of the model, which have the same names. `room` is the maximum of completion
    tokens; 0 removes the limit.
    """
    own = body.get("options")
    options: dict[str, Json] = {**defaults, **(own if is_object(own) else {})}
    limits: list[int | float] = []
    for key, name in _OPTIONS.items():
        value = body.get(key)
        if name == "num_predict" and isinstance(value, int | float) and value >= 0:
            limits.append(value)
        elif value is not None:
            options[name] = value
    if limits:
        options["num_predict"] = min(limits)
    stop = body.get("stop")
    if stop is not None:
        options["stop"] = stop if is_list(stop) else [stop]
    limit = options.get("num_predict")
    if room is not None and isinstance(limit, int | float) and limit > room:
        options["num_predict"] = room
        if not room:
            del options["num_predict"]
    return options


def select_native_fields(body: JsonObject) -> dict[str, Json]:
    """Return the fields that are forwarded unchanged."""
    return {key: value for key in _NATIVE if (value := body.get(key)) is not None}


def encode_format(body: JsonObject) -> Json:
    """Return Ollama's `format`: `"json"`, a JSON Schema, or None."""
    match body.get("response_format"):
        case {"type": "json_object"}:
            return "json"
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            return schema if is_object(schema) else "json"
        case _:
            return body.get("format")


def find_omitted_fields(body: JsonObject) -> tuple[str, ...]:
    """Return the names of the request's fields that have no equivalent in Ollama's API."""
    fields = [key for key, value in body.items() if value is not None and not _is_supported(key, value)]
    messages = body.get("messages")
    named = is_list(messages) and any(
        is_object(message) and message.get("name") and message.get("role") != "tool" for message in messages
    )
    return (*fields, "messages[].name") if named else tuple(fields)


def _is_supported(key: str, value: Json) -> bool:
    match key:
        case "n":
            return value == 1
        case "response_format":
            return encode_format({key: value}) is not None or value == {"type": "text"}
        case "think" | "reasoning_effort" | "reasoning" | "chat_template_kwargs":
            return read_think({key: value}) is not None
        case _:
            return key in _ENCODED or key in _HANDLED_HERE
