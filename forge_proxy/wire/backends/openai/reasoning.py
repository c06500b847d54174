"""What a request says of thinking: OpenAI's dialect has grown several ways to say it."""

from __future__ import annotations

from typing import TypeAlias

from forge_proxy.core.jsontypes import JsonObject

Think: TypeAlias = bool | str
"""Whether the model thinks, or how much: `low`, `medium`, `high` and, in newer versions, `max`."""

_EFFORTS: dict[str, Think] = {"none": False, "minimal": "low", "xhigh": "high"}


def think_of(body: JsonObject) -> Think | None:
    """What a request says, in whichever of the usual ways; None where it says nothing."""
    match body:
        case {"think": bool() | str() as said}:
            return said
        case {"reasoning_effort": str(effort)} | {"reasoning": {"effort": str(effort)}}:
            return _EFFORTS.get(effort, effort)
        case {"chat_template_kwargs": {"enable_thinking": bool(said)}}:
            return said
        case _:
            return None
