"""Finds what is still to do when a final answer arrives: the tools that the user asked for and that were not called.

A final answer is plain text, a call of the respond tool or of a terminal tool. What is still to do depends only on the
request, so the stream gate knows at the first token whether an answer may have to wait.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.guardrails.asked_tools import find_asked_tools
from forge_proxy.core.guardrails.conversation import find_user_message, read_calls, read_content, read_user_text
from forge_proxy.core.guardrails.tool_results import is_usable
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.tool_names import resolve_name

_MAX_MESSAGES = 400
"""Messages at the end of a conversation in which successful calls are looked for."""
_REFUSED_BY_USER = re.compile(
    r"\buser\b.{0,40}\b(?:cancel|declin|denied|deny|doesn.?t want|did not (?:allow|approve)|interrupt|refus|reject)"
    r"|\b(?:cancel|declin|denied|interrupt|refus|reject)\w*\b.{0,20}\bby (?:the )?user\b",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What is still to do. Without `pending`, any call would do: none has returned a usable result."""

    pending: tuple[str, ...] = ()
    """The tools that the user asked for and that were not called with success."""


def find_unfinished(
    messages: Sequence[JsonObject], tools: Sequence[ToolSpec], terminal: Collection[str]
) -> Unfinished | None:
    """Return what is still to do for the user's last message before a tool in `terminal`; None if nothing seems to be.

    A conversation in which the user refused a call is never unfinished: the model should then answer.
    """
    user = find_user_message(messages)
    working = tuple(tool for tool in tools if tool.name not in terminal)
    if user < 0 or not working:
        return None
    asked = find_asked_tools(read_user_text(messages[user]), working)
    names = tuple(tool.name for tool in working)
    pending = list(asked.named)
    has_result = has_failed = False
    for name, result in _read_latest_results(messages, max(user + 1, len(messages) - _MAX_MESSAGES)):
        if has_result and not pending:
            return None
        tool = resolve_name(name, names)
        if has_result and tool not in pending:
            continue
        if is_usable(result):
            has_result = True
            if tool in pending:
                pending.remove(tool)
        elif _REFUSED_BY_USER.search(result):
            return None
        else:
            has_failed = True
    if pending or (not has_result and (has_failed or asked.possible)):
        return Unfinished(tuple(pending))
    return None


def _read_latest_results(messages: Sequence[JsonObject], start: int) -> Iterator[tuple[str, str]]:
    """Yield the results from message `start` on, the latest first, each with the name of the tool as it was called."""
    results: dict[str, str] = {}
    for index in range(len(messages) - 1, start - 1, -1):
        message = messages[index]
        if listed := message.get("tool_calls"):
            for identity, name, _ in read_calls(listed):
                if identity in results:
                    yield name, results.pop(identity)
        elif message.get("role") == "tool":
            results[str(message.get("tool_call_id"))] = read_content(message.get("content"))
