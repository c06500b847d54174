"""Converts the fields of a request other than its conversation and tools to those of a chat completion.

Each field is converted, repeated in the response, dropped with a report, or rejected. Fields that the API does not have
are forwarded: model servers have parameters of their own.
"""

from __future__ import annotations

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.clients import fields

_FORWARDED = ("model", "temperature", "top_p", "stream", "parallel_tool_calls", "service_tier", "user")
"""Fields that a chat completion has, too."""
_ONLY_HERE = frozenset({
    "background", "client_metadata", "conversation", "include", "input", "instructions", "max_output_tokens",
    "max_tool_calls", "metadata", "previous_response_id", "prompt_cache_key", "prompt_cache_options",
    "prompt_cache_retention", "reasoning", "safety_identifier", "store", "stream_options", "text", "tool_choice",
    "tools", "top_logprobs", "truncation",
})  # fmt: skip
"""Fields that this module, or another one of the codec, reads; or that only describe the request. Those for OpenAI's
cache are not forwarded: Codex sends them always, and strict servers reject what they do not know.
"""
_DROPPED = ("access_programs", "background_options", "context_management", "image", "moderation", "personality")
_OF_CHAT = frozenset({
    "function_call", "functions", "logprobs", "max_completion_tokens", "max_tokens", "messages", "n", "response_format",
})  # fmt: skip
"""Fields of a chat completion that this API has under another name."""
ENCRYPTED_REASONING = "reasoning.encrypted_content"
_LOGPROBS = "message.output_text.logprobs"
_INCLUDABLE = frozenset({
    ENCRYPTED_REASONING, _LOGPROBS, "message.input_image.image_url", "computer_call_output.output.image_url",
})  # fmt: skip
_MAX_LOGPROBS = 20
_MAX_QUOTED = 60


def decode_options(body: JsonObject, dropped: list[str]) -> dict[str, Json]:
    """Return the fields of the chat completion. Appends what is dropped. Raises `InvalidRequest`."""
    _reject_unsupported(body)
    dropped += [f"{name} is not supported" for name in _DROPPED if body.get(name) not in (None, [], {})]
    chat: dict[str, Json] = {name: body[name] for name in _FORWARDED if body.get(name) is not None}
    if (limit := fields.read_count(body, "max_output_tokens", least=1)) is not None:
        chat["max_completion_tokens"] = limit
    _add_reasoning(body, chat, dropped)
    _add_text(body, chat)
    _add_included(body, chat, dropped)
    options = body.get("stream_options")
    if is_object(options) and options.get("include_obfuscation") is True:
        dropped.append("stream_options.include_obfuscation is not supported")
    if body.get("truncation") == "auto":
        dropped.append("truncation auto: the daemon's own compaction applies")
    known = _ONLY_HERE | set(_DROPPED)
    return chat | {name: value for name, value in body.items() if name not in known and name not in chat}


def requests_summary(body: JsonObject) -> bool:
    """Whether the client wants reasoning as a summary, the only form that some clients show."""
    reasoning = body.get("reasoning")
    return is_object(reasoning) and bool(reasoning.get("summary") or reasoning.get("generate_summary"))


def includes(body: JsonObject, what: str) -> bool:
    """Whether `include` lists a value."""
    listed = body.get("include")
    return is_list(listed) and what in listed


def _reject_unsupported(body: JsonObject) -> None:
    for name in sorted(_OF_CHAT & body.keys()):
        raise InvalidRequest(name, "a field of /v1/chat/completions; this API has another one for it")
    fields.read_flag(body, "background", "background", default=False)
    if body.get("prompt") is not None:
        raise InvalidRequest("prompt", "stored prompts are not supported; send the text as instructions or input")


def _add_reasoning(body: JsonObject, chat: dict[str, Json], dropped: list[str]) -> None:
    reasoning = body.get("reasoning")
    if reasoning is None:
        return
    if not is_object(reasoning):
        fields.reject("reasoning", "an object", reasoning)
    effort = reasoning.get("effort")
    if effort is not None:
        if not isinstance(effort, str):
            fields.reject("reasoning.effort", "a string", effort)
        chat["reasoning_effort"] = effort
    dropped += [f"reasoning.{name} is not supported" for name in ("context", "mode") if reasoning.get(name) is not None]


def _add_text(body: JsonObject, chat: dict[str, Json]) -> None:
    text = body.get("text")
    if text is None:
        return
    if not is_object(text):
        fields.reject("text", "an object", text)
    if text.get("verbosity") is not None:
        chat["verbosity"] = text["verbosity"]
    match text.get("format"):
        case None | {"type": "text"}:
            pass
        case {"type": "json_object"}:
            chat["response_format"] = {"type": "json_object"}
        case {"type": "json_schema", "schema": dict(schema), **rest}:
            kept = {name: value for name, value in rest.items() if value is not None}
            chat["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "response", **kept, "schema": schema},
            }
        case _:
            raise InvalidRequest("text.format", "expected {type: text}, {type: json_object} or a json_schema with name")


def _add_included(body: JsonObject, chat: dict[str, Json], dropped: list[str]) -> None:
    listed = body.get("include")
    if listed is not None and not is_list(listed):
        fields.reject("include", "a list", listed)
    for index, what in enumerate(listed or []):
        if not isinstance(what, str):
            fields.reject(f"include[{index}]", "a string", what)
        if what not in _INCLUDABLE:
            dropped.append(f"include[{index}]: {what[:_MAX_QUOTED]} is not supported")
    top = fields.read_count(body, "top_logprobs", least=0, most=_MAX_LOGPROBS)
    if includes(body, _LOGPROBS) or top:
        chat["logprobs"] = True
        if top:
            chat["top_logprobs"] = top
