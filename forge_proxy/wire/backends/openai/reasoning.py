"""Reads whether a request enables reasoning: there are several fields for it in OpenAI-compatible APIs."""

from __future__ import annotations

from typing import TypeAlias

from forge_proxy.core.jsontypes import JsonObject

Think: TypeAlias = bool | str
"""Whether the model produces reasoning, or how much: `low`, `medium`, `high` and, in newer versions, `max`."""

_EFFORTS: dict[str, Think] = {"none": False, "minimal": "low", "xhigh": "high"}


def read_think(body: JsonObject) -> Think | None:
    """Return the request's setting, from any of the common fields; None if it has none of them."""
    match body:
        case {"think": bool() | str() as value}:
            return value
        case {"reasoning_effort": str(effort)} | {"reasoning": {"effort": str(effort)}}:
            return _EFFORTS.get(effort, effort)
        case {"chat_template_kwargs": {"enable_thinking": bool(value)}}:
            return value
        case _:
            return None
