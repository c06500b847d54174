"""Converts a client's messages to typed messages for compaction, and applies its cuts to the client's JSON.

An assistant's text has the type of a failed call, which compaction removes last. User messages are never cut. Messages
that are not cut remain the same objects; cut messages keep their unknown fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge_proxy.core.compaction import Cut
from forge_proxy.core.estimate import estimate_message_tokens, estimate_tokens
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object, write
from forge_proxy.core.messages import Message, MessageMeta, MessageRole, MessageType, ToolCall
from forge_proxy.wire.message_repair import repair_messages

_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking_blocks")
_MEDIA_TOKENS = 256
"""Estimated tokens of an image or audio part: a few hundred in common models."""
_KINDS = {
    "system": (MessageRole.SYSTEM, MessageType.SYSTEM_PROMPT),
    "developer": (MessageRole.SYSTEM, MessageType.SYSTEM_PROMPT),
    "tool": (MessageRole.TOOL, MessageType.TOOL_RESULT),
    "function": (MessageRole.TOOL, MessageType.TOOL_RESULT),
}
_USER = (MessageRole.USER, MessageType.USER_INPUT)


@dataclass(frozen=True, slots=True)
class TypedMessages:
    """Typed messages; `places` has the index in the client's list for each. Reasoning is a separate message."""

    messages: tuple[Message, ...]
    places: tuple[int, ...]


def classify_messages(messages: Sequence[Json]) -> TypedMessages:
    """Return the messages with their types. Each assistant message begins a new iteration."""
    found: list[Message] = []
    places: list[int] = []
    step: int | None = None
    for place, message in enumerate(repair_messages(messages)):
        fields = message if is_object(message) else {}
        if fields.get("role") == "assistant":
            step = 0 if step is None else step + 1
            made = _assistant(fields, step)
        else:
            role, kind = _KINDS.get(str(fields.get("role")), _USER)
            identity = fields.get("tool_call_id")
            answered = identity if isinstance(identity, str) else None
            mark = step if kind is MessageType.TOOL_RESULT else None
            made = [_message(fields, role, kind, mark, tool_call_id=answered)]
        found += made
        places += [place] * len(made)
    return TypedMessages(tuple(found), tuple(places))


def apply_cuts(messages: Sequence[Json], typed: TypedMessages, cuts: Sequence[Cut]) -> list[Json]:
    """Return the client's messages with the cuts applied. `typed` is the result of `classify_messages` for them."""
    out: list[Json] = list(messages)
    removed: set[int] = set()
    for cut in cuts:
        place = typed.places[cut.index]
        message = out[place]
        if not is_object(message):
            continue
        if cut.type is MessageType.REASONING:
            out[place] = {key: value for key, value in message.items() if key not in _REASONING_FIELDS}
        elif cut.replacement is None:
            removed.add(place)
        else:
            keeps_media = cut.kind == "truncated"
            content = _content(message.get("content"), cut.replacement.content, keeps_media=keeps_media)
            out[place] = {**message, "content": content}
    return [message for place, message in enumerate(out) if place not in removed]


def _assistant(fields: JsonObject, step: int) -> list[Message]:
    reasoning = max([estimate_tokens(fields[name]) for name in _REASONING_FIELDS if name in fields], default=0)
    calls = _calls(fields)
    kind = MessageType.TOOL_CALL if calls else MessageType.TEXT_RESPONSE
    message = _message(fields, MessageRole.ASSISTANT, kind, step, calls=calls)
    if not reasoning:
        return [message]
    meta = MessageMeta(MessageType.REASONING, step, token_estimate=reasoning)
    return [Message(MessageRole.ASSISTANT, "", meta), message]


def _message(
    fields: JsonObject,
    role: MessageRole,
    kind: MessageType,
    step: int | None,
    *,
    calls: tuple[ToolCall, ...] = (),
    tool_call_id: str | None = None,
) -> Message:
    text, media = _read(fields.get("content"))
    message = Message(role, text, MessageMeta(kind, step), tool_call_id=tool_call_id, tool_calls=calls)
    if not media:
        return message
    estimate = estimate_message_tokens(message) + media * _MEDIA_TOKENS
    return Message(role, text, MessageMeta(kind, step, token_estimate=estimate), None, tool_call_id, calls)


def _read(content: Json) -> tuple[str, int]:
    """Return the text of a content and the number of parts that are not text."""
    if not is_list(content):
        return content if isinstance(content, str) else "", 0
    texts = [text for part in content if is_object(part) and isinstance(text := part.get("text"), str)]
    return "\n".join(texts), len(content) - len(texts)


def _calls(fields: JsonObject) -> tuple[ToolCall, ...]:
    calls = fields.get("tool_calls")
    if not calls and "function_call" not in fields:
        return ()
    made = [_call(call) for call in calls if is_object(call)] if is_list(calls) else []
    if is_object(fields.get("function_call")):
        made.append(_call({"function": fields["function_call"]}))
    return tuple(made)


def _call(call: JsonObject) -> ToolCall:
    inner = call.get("function", call.get("custom"))
    fields: JsonObject = inner if is_object(inner) else {}
    written = fields.get("arguments", fields.get("input", ""))
    arguments = written if isinstance(written, str) else write(written)
    return ToolCall(str(fields.get("name", "")), arguments, str(call.get("id") or ""))


def _content(before: Json, text: str, *, keeps_media: bool) -> Json:
    if not is_list(before):
        return text
    others = [part for part in before if not (is_object(part) and isinstance(part.get("text"), str))]
    return [{"type": "text", "text": text}, *(others if keeps_media else ())]
