"""Adapts messages to a model server: the roles it accepts, and whether past reasoning is forwarded.

Applied only if the server requires it. The order never changes, and no part, image or call is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.dialect import Dialect, Reasoning
from forge_proxy.core.jsontypes import Json, JsonObject, is_object
from forge_proxy.wire.backends.openai.tools_in_prompt import join_contents

_REASONING_FIELDS = ("reasoning_content", "reasoning")
_SYSTEM = ("system", "developer")


def filter_reasoning(messages: Sequence[Json], policy: Reasoning) -> list[Json]:
    """Return the messages with the reasoning that `policy` forwards."""
    if policy == "as-sent":
        return list(messages)
    last_user = max((i for i, message in enumerate(messages) if _role(message) == "user"), default=-1)
    return [
        _set_reasoning(message, keep=policy == "all" or (policy == "keep-last" and place > last_user))
        for place, message in enumerate(messages)
    ]


def _set_reasoning(message: Json, *, keep: bool) -> Json:
    if not is_object(message) or not any(key in message for key in _REASONING_FIELDS):
        return message
    reasoning = next((text for key in _REASONING_FIELDS if isinstance(text := message.get(key), str)), None)
    rest = {key: value for key, value in message.items() if key not in _REASONING_FIELDS}
    # Each server reads one of the two names.
    return {**rest, **dict.fromkeys(_REASONING_FIELDS, reasoning)} if keep and reasoning is not None else rest


def adapt_roles(messages: Sequence[Json], dialect: Dialect) -> list[Json]:
    """Return the messages with roles that `dialect` accepts at their positions."""
    out: list[Json] = []
    head = True
    for message in messages:
        role = _role(message)
        written = message
        if is_object(message) and role in _SYSTEM:
            if dialect.system == "never" or (dialect.system == "first" and not head):
                written = {**message, "role": "user"}
            elif role == "developer" and (not dialect.developer or dialect.system == "first"):
                written = {**message, "role": "system"}
        else:
            head = False
        last = out[-1] if out else None
        if is_object(written) and is_object(last) and _must_merge(last, written, dialect):
            out[-1] = _merge(last, written)
        else:
            out.append(written)
    return out


def _must_merge(first: JsonObject, second: JsonObject, dialect: Dialect) -> bool:
    """Return whether two adjacent messages must be merged. Calls and results are never separated."""
    role = first.get("role")
    if role != second.get("role") or first.get("tool_calls"):
        return False
    if role == "system":
        return dialect.system == "first"
    return dialect.alternating and role in ("user", "assistant")


def _merge(first: JsonObject, second: JsonObject) -> JsonObject:
    return {**first, **second, "content": join_contents(first.get("content"), second.get("content"))}


def _role(message: Json) -> Json:
    return message.get("role") if is_object(message) else None
