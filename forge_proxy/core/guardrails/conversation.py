"""Reads the conversation that a client sent: the user's last message, and the calls with their results since then."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object, write
from forge_proxy.core.messages import ToolCall

_ATTACHMENT = re.compile(
    r"<(system[-_]reminder|environment[-_](?:details|context)|reminder)\b[^>]{0,100}>.*?</\1>\s*", re.DOTALL
)
"""What agents add to a user message, or send in one of their own: it does not come from the user."""
_ANNOUNCES = re.compile(r"\b(?:i['’]?ll|i will|i need to|i['’]?m going to|let me|let us|let['’]?s)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A call of the conversation with its result. `index` is that of the message that contains the call."""

    call: ToolCall
    result: str
    index: int


def find_user_message(messages: Sequence[JsonObject]) -> int:
    """Return the index of the user's last message, -1 if there is none. Messages that an agent added do not count."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") == "user" and read_user_text(messages[index]):
            return index
    return -1


def read_user_text(message: JsonObject) -> str:
    """Return what the user wrote, without the attachments of an agent."""
    text = read_content(message.get("content"))
    return (_ATTACHMENT.sub("", text) if "<" in text else text).strip()


def read_content(content: Json) -> str:
    """Return the text of a message's content: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    parts = content if is_list(content) else ()
    return "\n".join(text for part in parts if is_object(part) and isinstance(text := part.get("text"), str))


def announces_call(text: str) -> bool:
    """Whether a text of the model announces a call, such as `I'll look`."""
    return bool(_ANNOUNCES.search(text))


def read_calls(listed: Json) -> Iterator[tuple[str, str, str]]:
    """Yield id, name and arguments of the `tool_calls` of a message; malformed ones are skipped."""
    for call in listed if is_list(listed) else ():
        function = call.get("function") if is_object(call) else None
        if is_object(call) and is_object(function):
            name, arguments = function.get("name"), function.get("arguments")
            text = arguments if isinstance(arguments, str) else write(arguments) if is_object(arguments) else "{}"
            yield str(call.get("id")), name if isinstance(name, str) else "", text


def read_answered_calls(messages: Sequence[JsonObject], start: int = 0) -> Iterator[AnsweredCall]:
    """Yield the calls that have a result, from message `start` on, in the order of the results.

    A reused id refers to the latest call.
    """
    calls: dict[str, tuple[ToolCall, int]] = {}
    for index in range(start, len(messages)):
        message = messages[index]
        if listed := message.get("tool_calls"):
            for identity, name, arguments in read_calls(listed):
                calls[identity] = ToolCall(name, arguments, identity), index
        elif message.get("role") == "tool" and (known := calls.pop(str(message.get("tool_call_id")), None)):
            yield AnsweredCall(known[0], read_content(message.get("content")), known[1])
