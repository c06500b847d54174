"""Finds the remaining work in a conversation that makes no progress: the model makes the same call a third time.

Such a conversation rarely recovers by itself, and the client's limit on turns ends it. Called by `judge_heuristics`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.guardrails.asked_tools import AskedTools, find_asked_tools
from forge_proxy.core.guardrails.conversation import find_user_message, read_answered_calls, read_user_text
from forge_proxy.core.guardrails.repeated_calls import normalize_arguments
from forge_proxy.core.guardrails.tool_results import is_usable
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.tool_names import resolve_name

_MAX_MESSAGES = 400
"""Messages at the end of a conversation in which calls are looked for."""


def find_remaining(
    messages: Sequence[JsonObject], tools: Sequence[ToolSpec], terminal: Collection[str]
) -> tuple[str, ...]:
    """Return the names of the tools that can still be useful, without those in `terminal`; possibly none.

    If the user's message refers to tools, these are the ones that it refers to and that have not returned a usable
    result. Tools that it may refer to count as well until one of them has returned such a result. If the message
    refers to no tool, these are all tools. A tool that was called twice with equal arguments is never among them.
    """
    working = tuple(tool for tool in tools if tool.name not in terminal)
    names = tuple(tool.name for tool in working)
    user = find_user_message(messages)
    asked = find_asked_tools(read_user_text(messages[user]), working) if user >= 0 else AskedTools()
    successful: set[str | None] = set()
    calls: Counter[tuple[str | None, str]] = Counter()
    for each in read_answered_calls(messages, max(user + 1, len(messages) - _MAX_MESSAGES)):
        name = resolve_name(each.call.tool, names)
        calls[name, normalize_arguments(each.call.arguments)] += 1
        if is_usable(each.result):
            successful.add(name)
    spent = {name for (name, _), times in calls.items() if times > 1}
    if not asked.possible:
        return tuple(name for name in names if name not in spent)
    wanted = asked.named if successful else asked.possible
    return tuple(name for name in wanted if name not in spent | successful)
