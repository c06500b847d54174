"""The text of requests in the schema of OpenTelemetry's `gen_ai.input.messages` and `gen_ai.output.messages`. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.core.messages import Message
from forge_proxy.core.stream import Reply

_LONGEST = 4000
"""Characters of one text. Collectors limit the size of attributes, and cut JSON in the middle."""


def to_input_messages(body: JsonObject, added: Iterable[Message] = ()) -> list[Json]:
    """Return the conversation of a request, with the messages that the guardrails added."""
    messages = body.get("messages")
    listed: list[Json] = [*(messages if is_list(messages) else ()), *(message.to_api_dict() for message in added)]
    return [_to_message(message) for message in listed if is_object(message)]


def to_output_messages(replies: Iterable[Reply]) -> list[Json]:
    """Return the response of a model, one message for each choice."""
    return [
        {"role": "assistant", "parts": _reply_parts(reply), "finish_reason": reply.finish or ""} for reply in replies
    ]


def _reply_parts(reply: Reply) -> list[Json]:
    parts: list[Json] = []
    if reply.reasoning:
        parts.append({"type": "reasoning", "content": _cut(reply.reasoning)})
    if reply.text:
        parts.append(_text(reply.text))
    parts += [_call(call.id, call.tool, call.arguments) for call in reply.calls]
    return parts


def _to_message(message: JsonObject) -> Json:
    role = message.get("role")
    content = message.get("content")
    if role == "tool":
        parts: list[Json] = [
            {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": _content_text(content)}
        ]
        return {"role": role, "parts": parts}
    parts = [_text(text)] if (text := _content_text(content)) else []
    calls = message.get("tool_calls")
    for call in calls if is_list(calls) else ():
        function = call.get("function") if is_object(call) else None
        if is_object(call) and is_object(function):
            parts.append(_call(call.get("id"), function.get("name"), function.get("arguments")))
    return {"role": role, "parts": parts}


def _content_text(content: Json) -> str:
    """Return text content; of other parts only their type."""
    if isinstance(content, str):
        return _cut(content)
    texts: list[str] = []
    for part in content if is_list(content) else ():
        if is_object(part):
            text = part.get("text")
            texts.append(text if isinstance(text, str) else f"[{part.get('type')}]")
    return _cut("\n".join(texts))


def _text(text: str) -> Json:
    return {"type": "text", "content": _cut(text)}


def _call(identity: Json, name: Json, arguments: Json) -> Json:
    written = _cut(arguments) if isinstance(arguments, str) else arguments
    return {"type": "tool_call", "id": identity, "name": name, "arguments": written}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… [{len(text) - _LONGEST} characters more]"
