"""Encodes a `ModelCall` as the body of a Messages request.

Fields without an equivalent (seed, penalties, log probabilities, …) are omitted because the server rejects unknown
fields. Those that would change the format of the response raise `InvalidRequest`.
"""

from __future__ import annotations

from forge_proxy.core.chat import ModelCall
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.backends.anthropic.blocks import CACHE, Block, text_block
from forge_proxy.wire.backends.anthropic.capabilities import ModelFacts
from forge_proxy.wire.backends.anthropic.messages import encode_history
from forge_proxy.wire.backends.anthropic.reasoning import encode_thinking
from forge_proxy.wire.backends.anthropic.tools import ToolNames, collect_tool_names, encode_tool_choice, encode_tools
from forge_proxy.wire.backends.openai.request import conversation

DEFAULT_LIMIT = 4096
"""`max_tokens` if neither the client nor the server sets a limit; the same as in forge."""
_JSON_ONLY = "Answer with one JSON object and nothing else."


def encode_call(call: ModelCall, facts: ModelFacts) -> tuple[dict[str, Json], ToolNames]:
    """Return the request body and the tool names used in it. Raises `InvalidRequest` for unsupported fields."""
    request = call.request
    fields = {**request.body, **request.anthropic}
    if "output_config" in request.anthropic:  # which has the effort, if the client set one
        fields.pop("reasoning_effort", None)
    if request.choices > 1:
        raise InvalidRequest("n", "the anthropic backend returns one choice; omit it")
    names = collect_tool_names(call)
    history = encode_history(conversation(call), names, call.dialect.reasoning)
    limit = _limit(call, facts)
    body: dict[str, Json] = {
        "model": call.model.served or "",
        "max_tokens": limit,
        "messages": history.messages,
        **_forward_fields(fields),
    }
    before = request.anthropic.get("system")
    system: list[Json] = [*(before if is_list(before) else []), *history.system, *_encode_format(body, fields, facts)]
    if system:
        body["system"] = system
    if tools := encode_tools(call, names, history.called):
        body["tools"] = tools
        if choice := encode_tool_choice(call, names):
            body["tool_choice"] = choice
    _add_thinking(body, fields, facts, limit, loose=history.lacks_reasoning)
    if call.dialect.sampling and "thinking" not in body:
        body |= _sampling(fields, call.model.sampling)
    return body, names


def _limit(call: ModelCall, facts: ModelFacts) -> int:
    """Return `max_tokens`, which is required: the client's limit, bounded by the model's and the window's."""
    bounds = [bound for bound in (call.request.limit, call.room, facts.max_tokens) if bound]
    return min(bounds) if bounds else DEFAULT_LIMIT


def _forward_fields(fields: JsonObject) -> dict[str, Json]:
    out: dict[str, Json] = {}
    stops = fields.get("stop")
    listed = stops if is_list(stops) else [stops]
    if kept := [stop for stop in listed if isinstance(stop, str) and stop.strip()]:
        out["stop_sequences"] = [*kept]
    user = fields.get("safety_identifier") or fields.get("user")
    if isinstance(user, str) and user:
        out["metadata"] = {"user_id": user}
    for key in (CACHE, "container", "inference_geo", "speed"):  # Anthropic's own
        if fields.get(key) is not None:
            out[key] = fields[key]
    return out


def _encode_format(body: dict[str, Json], fields: JsonObject, facts: ModelFacts) -> list[Block]:
    """Encode `response_format`. Returns blocks to add to the system message."""
    match fields.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": schema}} if is_object(schema):
            if facts.has_structured_outputs is False:
                raise InvalidRequest("response_format", f"the model {body['model']!r} does not support a JSON Schema")
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        case {"type": "json_object"}:  # Anthropic has no such mode
            return [text_block(_JSON_ONLY)]
        case _:
            pass
    return []


def _add_thinking(body: dict[str, Json], fields: JsonObject, facts: ModelFacts, limit: int, *, loose: bool) -> None:
    choice = body.get("tool_choice")
    forced = is_object(choice) and choice.get("type") in ("any", "tool")
    thinking = encode_thinking(fields, facts, limit, may_budget=not loose)
    if forced:  # the server: "Thinking may not be enabled when tool_choice forces tool use"
        thinking.pop("thinking", None)
    given, form = thinking.pop("output_config", None), body.get("output_config")
    if is_object(given) or is_object(form):
        body["output_config"] = {**(given if is_object(given) else {}), **(form if is_object(form) else {})}
    body |= thinking


def _sampling(client: JsonObject, defaults: JsonObject) -> dict[str, Json]:
    """Return the temperature, or else `top_p`: recent models accept one of them or none (`NO_SAMPLING`).

    The model's `defaults` have neither if the client sets one.
    """
    fields = {name: value for name in ("temperature", "top_p", "top_k") if (value := client.get(name)) is not None}
    is_set = "temperature" in fields or "top_p" in fields
    fields = {name: value for name, value in defaults.items() if name == "top_k" or not is_set} | fields
    out: dict[str, Json] = {}
    temperature = fields.get("temperature")
    if isinstance(temperature, int | float):
        out["temperature"] = min(temperature, 1.0)  # OpenAI's goes up to 2
    elif isinstance(fields.get("top_p"), int | float):
        out["top_p"] = fields["top_p"]
    if isinstance(fields.get("top_k"), int):
        out["top_k"] = fields["top_k"]
    return out
