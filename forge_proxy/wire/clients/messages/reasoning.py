"""Converts `thinking` and `output_config` to the fields that local model servers read.

Anthropic's own API receives both unchanged (`ChatRequest.anthropic`).
"""

from __future__ import annotations

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_object
from forge_proxy.wire.clients import fields
from forge_proxy.wire.clients.messages.dropped import DroppedParts, cut_field_name

_SWITCHES = {"enabled": True, "disabled": False}
_THINKING = ("enabled", "disabled", "adaptive", "between_tools")
_EFFORTS = {"low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}
"""The efforts of Anthropic's API, and the ones that local model servers know."""


def decode_thinking(body: JsonObject, dropped: DroppedParts) -> dict[str, Json]:
    """Return the fields that enable or disable reasoning; none for `adaptive`, where the model decides."""
    thinking = body.get("thinking")
    if thinking is None:
        return {}
    if not is_object(thinking):
        fields.reject("thinking", "an object", thinking)
    kind = thinking.get("type")
    if kind not in _THINKING:
        raise InvalidRequest("thinking.type", f"expected one of {', '.join(_THINKING)}")
    if thinking.get("budget_tokens") is not None:
        dropped.add("thinking.budget_tokens", "only Anthropic's models have a budget")
    if kind == "between_tools":
        dropped.add("thinking.type", "local models cannot limit reasoning to the time between calls")
    return {"chat_template_kwargs": {"enable_thinking": _SWITCHES[kind]}} if kind in _SWITCHES else {}


def is_reasoning_omitted(body: JsonObject) -> bool:
    """Return whether the client wants thinking blocks that do not show the reasoning."""
    thinking = body.get("thinking")
    return is_object(thinking) and thinking.get("display") == "omitted"


def decode_output_config(body: JsonObject, dropped: DroppedParts) -> dict[str, Json]:
    """Return `reasoning_effort` and `response_format`. Raises `InvalidRequest`."""
    out: dict[str, Json] = {}
    config = body.get("output_config")
    if config is not None and not is_object(config):
        fields.reject("output_config", "an object", config)
    config = config or {}
    for key in [key for key in config if key not in ("effort", "format")]:
        dropped.add(f"output_config.{cut_field_name(key)}", "only Anthropic's models have it")
    effort = config.get("effort")
    if effort is not None and not _is_disabled(body):
        if not isinstance(effort, str) or effort not in _EFFORTS:
            raise InvalidRequest("output_config.effort", f"expected one of {', '.join(_EFFORTS)}")
        out["reasoning_effort"] = _EFFORTS[effort]
        if _EFFORTS[effort] != effort:
            dropped.add("output_config.effort", f"local models have no higher one than {_EFFORTS[effort]}")
    path = "output_config.format" if config.get("format") is not None else "output_format"  # its name in older betas
    form = config.get("format") if config.get("format") is not None else body.get("output_format")
    if form is not None:
        out["response_format"] = _decode_format(form, path)
    return out


def _is_disabled(body: JsonObject) -> bool:
    thinking = body.get("thinking")
    return is_object(thinking) and thinking.get("type") == "disabled"


def _decode_format(form: Json, at: str) -> Json:
    match form:
        case {"type": "json_schema", "schema": {**schema}}:
            return {"type": "json_schema", "json_schema": {"name": "response", "strict": True, "schema": schema}}
        case _:
            raise InvalidRequest(at, "expected {type: json_schema, schema}")
