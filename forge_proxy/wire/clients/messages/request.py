"""Decodes a Messages request to a `ChatRequest` whose body is a chat completion request.

What only Anthropic's own API understands is kept beside the body (`ChatRequest.anthropic`), so that no other model
server receives a field that it does not know.
"""

from __future__ import annotations

from functools import partial

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.clients import fields
from forge_proxy.wire.clients.messages.content import PartDecoder, read_blocks, to_content
from forge_proxy.wire.clients.messages.dropped import DroppedParts, cut_field_name
from forge_proxy.wire.clients.messages.errors import ThreadsNotSupported
from forge_proxy.wire.clients.messages.history import decode_history, find_named_tools, has_cache_marks
from forge_proxy.wire.clients.messages.reasoning import decode_output_config, decode_thinking
from forge_proxy.wire.clients.messages.tools import decode_tool_choice, decode_tools

ATTRIBUTION = "x-anthropic-billing-header:"
"""Begins the block that Claude Code puts before the system prompt. It changes from request to request, so that in front
of a local model's prompt it would make the prefix cache useless.
"""
_SAMPLING = ("temperature", "top_p", "top_k")
_ANTHROPIC = ("thinking", "output_config", "cache_control", "container", "inference_geo", "speed")
"""Fields that Anthropic's API receives as they are."""
_DECODED = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "max_tokens", "stop_sequences", "stream", "metadata",
     "context_management", "output_format", "service_tier", *_SAMPLING, *_ANTHROPIC}
)  # fmt: skip
_EPHEMERAL: JsonObject = {"type": "ephemeral"}


def decode_request(body: JsonObject) -> ChatRequest:
    """Decode a parsed body. Raises `InvalidRequest` with the path of the field, or `ThreadsNotSupported`."""
    dropped = DroppedParts()
    if body.get("thread"):
        raise ThreadsNotSupported
    listed = fields.read_objects(body, "messages")
    if not listed:
        why = "expected at least one message" if "messages" in body else "required, but missing"
        raise InvalidRequest("messages", why)
    system, attribution = _system(body.get("system"), dropped)
    messages = [*system, *decode_history(listed, dropped)]
    chat: dict[str, Json] = {"messages": [*messages]}
    if (model := fields.read_optional_text(body, "model")) is not None:
        chat["model"] = model
    tools = decode_tools(body, partial(find_named_tools, listed), dropped)
    if tools:
        chat["tools"] = [tool.definition for tool in tools]
    choice, choice_fields = decode_tool_choice(body, tools)
    chat |= {**choice_fields, **decode_thinking(body, dropped), **decode_output_config(body, dropped)}
    limit, options = _options(body, dropped)
    chat |= options
    if stream := fields.read_flag(body, "stream", "stream", default=False):
        chat |= {"stream": True, "stream_options": {"include_usage": True}}
    _drop_rest(body, dropped)
    return ChatRequest(
        body=chat,
        messages=tuple(messages),
        model=model,
        tools=tuple(tool.spec for tool in tools),
        tool_choice=choice,
        parallel="parallel_tool_calls" not in choice_fields,
        stream=stream,
        include_usage=True,
        limit=limit,
        is_converted=True,
        dropped=dropped.entries(),
        anthropic=_anthropic_fields(body, attribution),
    )


def _system(system: Json, dropped: DroppedParts) -> tuple[list[JsonObject], list[Json]]:
    """Return the system message, if there is one, and the blocks of Claude Code's attribution."""
    blocks = read_blocks(system, "system")
    attribution: list[Json] = []
    kept: list[JsonObject] = []
    for block in blocks:
        text = block.get("text")
        if not (isinstance(text, str) and text.startswith(ATTRIBUTION)):
            kept.append(block)
            continue
        line, _, rest = text.partition("\n")
        attribution.append({"type": "text", "text": line})
        if rest.strip():
            kept.append({**block, "text": rest.lstrip("\n")})
    content = to_content(PartDecoder(dropped).decode(kept, "system"))
    return [{"role": "system", "content": content}] if content else [], attribution


def _options(body: JsonObject, dropped: DroppedParts) -> tuple[int | None, dict[str, Json]]:
    """Return the limit of the response in tokens, and the fields that set it and the sampling."""
    out: dict[str, Json] = {key: body[key] for key in _SAMPLING if body.get(key) is not None}
    limit = fields.read_count(body, "max_tokens", least=0)
    if limit == 0:  # a request that only fills the prompt cache
        dropped.add("max_tokens", "0 is sent as 1")
        limit = 1
    if limit is not None:
        out["max_tokens"] = limit
    stops = body.get("stop_sequences")
    if stops is not None and not (is_list(stops) and all(isinstance(stop, str) for stop in stops)):
        fields.reject("stop_sequences", "a list of strings", stops)
    if stops:
        out["stop"] = stops
    metadata = body.get("metadata")
    user = metadata.get("user_id") if is_object(metadata) else None
    if isinstance(user, str) and user:
        out["user"] = user
    return limit, out


def _drop_rest(body: JsonObject, dropped: DroppedParts) -> None:
    """Report the fields that are not passed on."""
    for key in [key for key in body if key not in _DECODED]:
        dropped.add(cut_field_name(key), "unknown field")
    for key in ("container", "inference_geo", "speed"):
        if body.get(key) not in (None, "standard"):
            dropped.add(key, "only Anthropic's API has it")
    if body.get("service_tier") not in (None, "auto"):
        dropped.add("service_tier", "only Anthropic's API has it")
    management = body.get("context_management")
    edits = management.get("edits") if is_object(management) else None
    for index, edit in enumerate(edits if is_list(edits) else []):
        kind = edit.get("type") if is_object(edit) else None
        if is_object(edit) and edit.get("keep") == "all":  # nothing to clear
            continue
        name = cut_field_name(kind) if isinstance(kind, str) else "edit"
        dropped.add(f"context_management.edits[{index}]", f"{name} is not supported; see budget.overflow: compact")


def _anthropic_fields(body: JsonObject, attribution: list[Json]) -> dict[str, Json]:
    out: dict[str, Json] = {key: body[key] for key in _ANTHROPIC if body.get(key) is not None}
    marked = any(has_cache_marks(body.get(key)) for key in ("system", "tools", "messages"))
    if marked:  # the service then caches up to the last block, wherever the client set its breakpoints
        out.setdefault("cache_control", _EPHEMERAL)
    if attribution:
        out["system"] = attribution
    return out
