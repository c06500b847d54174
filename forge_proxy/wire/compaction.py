"""A caller's messages as compaction sees them, and its cuts made in the caller's own JSON.

An assistant's text is an answer here, not a failed call, but is treated as such: it goes last. What users said is never
cut. Messages that are not cut stay the same objects, and so does what is unknown in those that are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge_proxy.core.compaction import Cut
from forge_proxy.core.estimate import estimate_message_tokens, estimate_tokens
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object, write
from forge_proxy.core.messages import Message, MessageMeta, MessageRole, MessageType, ToolCall
from forge_proxy.wire.message_repair import healed

_THOUGHTS = ("reasoning_content", "reasoning", "thinking_blocks")
_MEDIA_TOKENS = 256
"""For a picture or a sound, of which a text estimate knows nothing: some hundreds in the usual models."""
_KINDS = {
    "system": (MessageRole.SYSTEM, MessageType.SYSTEM_PROMPT),
    "developer": (MessageRole.SYSTEM, MessageType.SYSTEM_PROMPT),
    "tool": (MessageRole.TOOL, MessageType.TOOL_RESULT),
    "function": (MessageRole.TOOL, MessageType.TOOL_RESULT),
}
_USER = (MessageRole.USER, MessageType.USER_INPUT)


@dataclass(frozen=True, slots=True)
class TypedMessages:
    """Messages by what they are for, and where each stands in the caller's list: thoughts are one of their own here."""

    messages: tuple[Message, ...]
    places: tuple[int, ...]


def tagged(messages: Sequence[Json]) -> TypedMessages:
    """The messages by what they are for. Each of an assistant begins another iteration."""
    found: list[Message] = []
    places: list[int] = []
    step: int | None = None
    for place, message in enumerate(healed(messages)):
        said = message if is_object(message) else {}
        if said.get("role") == "assistant":
            step = 0 if step is None else step + 1
            made = _assistant(said, step)
        else:
            role, kind = _KINDS.get(str(said.get("role")), _USER)
            identity = said.get("tool_call_id")
            answered = identity if isinstance(identity, str) else None
            mark = step if kind is MessageType.TOOL_RESULT else None
            made = [_message(said, role, kind, mark, tool_call_id=answered)]
        found += made
        places += [place] * len(made)
    return TypedMessages(tuple(found), tuple(places))


def with_cuts(messages: Sequence[Json], tags: TypedMessages, cuts: Sequence[Cut]) -> list[Json]:
    """The caller's messages with the cuts made. `tags` are those of these messages."""
    out: list[Json] = list(messages)
    gone: set[int] = set()
    for cut in cuts:
        place = tags.places[cut.index]
        message = out[place]
        if not is_object(message):
            continue
        if cut.type is MessageType.REASONING:
            out[place] = {key: value for key, value in message.items() if key not in _THOUGHTS}
        elif cut.replacement is None:
            gone.add(place)
        else:
            keeps_media = cut.kind == "truncated"
            content = _content(message.get("content"), cut.replacement.content, keeps_media=keeps_media)
            out[place] = {**message, "content": content}
    return [message for place, message in enumerate(out) if place not in gone]


def _assistant(said: JsonObject, step: int) -> list[Message]:
    thoughts = max([estimate_tokens(said[name]) for name in _THOUGHTS if name in said], default=0)
    calls = _calls(said)
    kind = MessageType.TOOL_CALL if calls else MessageType.TEXT_RESPONSE
    message = _message(said, MessageRole.ASSISTANT, kind, step, calls=calls)
    if not thoughts:
        return [message]
    meta = MessageMeta(MessageType.REASONING, step, token_estimate=thoughts)
    return [Message(MessageRole.ASSISTANT, "", meta), message]


def _message(
    said: JsonObject,
    role: MessageRole,
    kind: MessageType,
    step: int | None,
    *,
    calls: tuple[ToolCall, ...] = (),
    tool_call_id: str | None = None,
) -> Message:
    text, media = _read(said.get("content"))
    message = Message(role, text, MessageMeta(kind, step), tool_call_id=tool_call_id, tool_calls=calls)
    if not media:
        return message
    estimate = estimate_message_tokens(message) + media * _MEDIA_TOKENS
    return Message(role, text, MessageMeta(kind, step, token_estimate=estimate), None, tool_call_id, calls)


def _read(content: Json) -> tuple[str, int]:
    """The text of a content, and how many of its parts are something else."""
    if not is_list(content):
        return content if isinstance(content, str) else "", 0
    texts = [text for part in content if is_object(part) and isinstance(text := part.get("text"), str)]
    return "\n".join(texts), len(content) - len(texts)


def _calls(said: JsonObject) -> tuple[ToolCall, ...]:
    calls = said.get("tool_calls")
    if not calls and "function_call" not in said:
        return ()
    made = [_call(call) for call in calls if is_object(call)] if is_list(calls) else []
    if is_object(said.get("function_call")):
        made.append(_call({"function": said["function_call"]}))
    return tuple(made)


def _call(call: JsonObject) -> ToolCall:
    inner = call.get("function", call.get("custom"))
    said: JsonObject = inner if is_object(inner) else {}
    written = said.get("arguments", said.get("input", ""))
    arguments = written if isinstance(written, str) else write(written)
    return ToolCall(str(said.get("name", "")), arguments, str(call.get("id") or ""))


def _content(before: Json, text: str, *, keeps_media: bool) -> Json:
    if not is_list(before):
        return text
    others = [part for part in before if not (is_object(part) and isinstance(part.get("text"), str))]
    return [{"type": "text", "text": text}, *(others if keeps_media else ())]
