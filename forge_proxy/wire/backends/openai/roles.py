"""Messages written the way a model server wants them: who may speak when, and what becomes of thoughts.

Only for a server that needs it. The order is never changed, and no content is lost: parts, images and calls included.
"""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.dialect import Dialect, Reasoning
from forge_proxy.core.jsontypes import Json, JsonObject, is_object
from forge_proxy.wire.backends.openai.tools_in_prompt import joined

_THOUGHTS = ("reasoning_content", "reasoning")
_SYSTEM = ("system", "developer")


def with_thoughts(messages: Sequence[Json], policy: Reasoning) -> list[Json]:
    """The messages with the thoughts that `policy` lets through."""
    if policy == "as-sent":
        return list(messages)
    asked = max((i for i, message in enumerate(messages) if _role(message) == "user"), default=-1)
    return [
        _thinking(message, keep=policy == "all" or (policy == "keep-last" and place > asked))
        for place, message in enumerate(messages)
    ]


def _thinking(message: Json, *, keep: bool) -> Json:
    if not is_object(message) or not any(key in message for key in _THOUGHTS):
        return message
    thought = next((said for key in _THOUGHTS if isinstance(said := message.get(key), str)), None)
    rest = {key: value for key, value in message.items() if key not in _THOUGHTS}
    # Servers read one name or the other.
    return {**rest, **dict.fromkeys(_THOUGHTS, thought)} if keep and thought is not None else rest


def in_dialect(messages: Sequence[Json], dialect: Dialect) -> list[Json]:
    """The messages with the roles that `dialect` knows, in the places where it allows them."""
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
        if is_object(written) and is_object(last) and _are_one(last, written, dialect):
            out[-1] = _merged(last, written)
        else:
            out.append(written)
    return out


def _are_one(first: JsonObject, second: JsonObject, dialect: Dialect) -> bool:
    """Whether two neighbours have to be one message. A call is never moved away from its result."""
    role = first.get("role")
    if role != second.get("role") or first.get("tool_calls"):
        return False
    if role == "system":
        return dialect.system == "first"
    return dialect.alternating and role in ("user", "assistant")


def _merged(first: JsonObject, second: JsonObject) -> JsonObject:
    return {**first, **second, "content": joined(first.get("content"), second.get("content"))}


def _role(message: Json) -> Json:
    return message.get("role") if is_object(message) else None
