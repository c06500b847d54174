"""The schemas of a request's tools: compiled a few at a time; and which of them cannot be used, which is reported once
and not with every request that brings the same tools again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.guardrails import Turn
from forge_proxy.core.guardrails.schema import compiled, uncheckable

_REMEMBERED = 256
_AT_ONCE = 32
"""Schemas that are compiled before others have the event loop: each takes a tenth of a millisecond."""


async def compile_schemas(tools: Sequence[ToolSpec]) -> None:
    """Compile the schemas of many tools in slices; they are kept, and found there when they are used."""
    if len(tools) <= _AT_ONCE:
        return
    for place, tool in enumerate(tools):
        compiled(tool.parameters)
        if place % _AT_ONCE == 0:
            await asyncio.sleep(0)


class ToolSets:
    """What has been said of the tools of earlier requests."""

    def __init__(self) -> None:
        self._told: deque[tuple[str, ...]] = deque(maxlen=_REMEMBERED)

    def unchecked(self, turn: Turn) -> tuple[str, ...]:
        """The tools whose schemas cannot be used, where that has not been said lately; else nothing."""
        names = uncheckable(turn.tools) if turn.policy.enabled.validate_calls else ()
        if not names or names in self._told:
            return ()
        self._told.append(names)
        return names
