"""Converts the `options`, `format` and `think` of Ollama's API to fields of a chat completion request.

An Ollama as the backend receives what only Ollama knows unchanged. For other model servers, `to_openai_fields` converts
or drops it.
"""

from __future__ import annotations

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_list, is_object
from forge_proxy.wire.clients import fields

_SAME_NAME = frozenset({
    "temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "presence_penalty", "frequency_penalty",
    "repeat_penalty", "repeat_last_n",
})  # fmt: skip
"""Options that chat completion requests have under the same name: OpenAI's own and llama-server's."""
_LLAMA_CPP = {
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
    "num_keep": "n_keep",
}
"""Options that llama-server has under this name. The backend adapter of Ollama takes them in `options` only."""
_REASONS = {
    "num_ctx": "the window of this model server is set where it is started",
    "keep_alive": "only Ollama unloads models by itself",
}
_LEVELS = ("low", "medium", "high", "max")


def convert_options(body: JsonObject) -> dict[str, Json]:
    """Return the fields for the `options` of a request; what only Ollama knows stays in `options`.

    Raises `InvalidRequest`.
    """
    options = body.get("options")
    if options is None:
        return {}
    if not is_object(options):
        fields.reject("options", "an object", options)
    out: dict[str, Json] = {}
    only_ollama: dict[str, Json] = {}
    for name, value in options.items():
        if value is None:
            continue
        if name in _SAME_NAME:
            out[name] = _number(value, f"options.{name}")
        elif name == "num_predict":
            if (limit := _number(value, "options.num_predict")) > 0:  # -1 and -2 mean no limit
                out["max_tokens"] = int(limit)
        elif name == "stop":
            out["stop"] = _stop(value)
        else:
            only_ollama[name] = value
    if only_ollama:
        out["options"] = only_ollama
    return out


def convert_format(body: JsonObject) -> dict[str, Json]:
    """Return `response_format` for the `format` of a request. Raises `InvalidRequest`."""
    form = body.get("format")
    if form is None or form == "":
        return {}
    if form == "json":
        return {"response_format": {"type": "json_object"}}
    if is_object(form):
        return {"response_format": {"type": "json_schema", "json_schema": {"name": "response", "schema": form}}}
    raise InvalidRequest("format", 'expected "json" or a JSON Schema')


def read_ollama_think(body: JsonObject) -> dict[str, Json]:
    """Return the `think` of a request as a field; none if it is not set. Raises `InvalidRequest`."""
    think = body.get("think")
    if think is None or think == "":
        return {}
    if isinstance(think, bool) or think in _LEVELS:
        return {"think": think}
    raise InvalidRequest("think", f"expected true, false, {', '.join(_LEVELS)}")


def to_openai_fields(body: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    """Convert what only Ollama knows for another model server: return the body, and what was dropped."""
    out = {key: value for key, value in body.items() if key not in ("options", "keep_alive", "think")}
    dropped: list[str] = []
    options = body.get("options")
    for name, value in options.items() if is_object(options) else ():
        if name in _LLAMA_CPP:
            out[_LLAMA_CPP[name]] = value
        else:
            dropped.append(_describe(f"options.{name[:40]}", name))
    if "keep_alive" in body:
        dropped.append(_describe("keep_alive", "keep_alive"))
    think = body.get("think")
    if isinstance(think, bool):
        kwargs = out.get("chat_template_kwargs")
        out["chat_template_kwargs"] = {"enable_thinking": think, **(kwargs if is_object(kwargs) else {})}
    elif think is not None:
        out.setdefault("reasoning_effort", think)
    return out, tuple(dropped)


def _describe(field: str, name: str) -> str:
    return f"{field}: {_REASONS.get(name, 'only an Ollama has this option')}"


def _number(value: Json, at: str) -> int | float:
    if not is_integer(value) and not isinstance(value, float):
        fields.reject(at, "a number", value)
    return value


def _stop(value: Json) -> Json:
    if not isinstance(value, str) and not (is_list(value) and all(isinstance(one, str) for one in value)):
        fields.reject("options.stop", "a list of strings", value)
    return value or None
