"""The schemas of a request's tools: compiled a few at a time; and which of them cannot be used, which is reported once
and not with every request that brings the same tools again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.guardrails import Turn
from forge_proxy.core.guardrails.schema import uncheckable

_REMEMBERED = 256
_AT_ONCE = 32
"""Schemas that are compiled before others have the event loop: each takes a tenth of a millisecond, if it has no
patterns.
"""
_SPELL = 0.005
"""Seconds of compiling after which others have the event loop, however few schemas that were: patterns take long."""


class UnvalidatedTools:
    """What has been said of the tools of earlier requests."""

    def __init__(self) -> None:
        self._told: deque[tuple[str, ...]] = deque(maxlen=_REMEMBERED)

    async def unchecked(self, turn: Turn) -> tuple[str, ...]:
        """The tools whose schemas cannot be used, where that has not been said lately; else nothing.

        All schemas are compiled for that, in slices; they are kept, and found there when they are used.
        """
        names = await _uncheckable(turn.tools) if turn.policy.enabled.validate_calls else ()
        if not names or names in self._told:
            return ()
        self._told.append(names)
        return names


async def _uncheckable(tools: Sequence[ToolSpec]) -> tuple[str, ...]:
    names: list[str] = []
    began = time.monotonic()
    for place, tool in enumerate(tools, 1):
        names += uncheckable((tool,))
        if place % _AT_ONCE == 0 or time.monotonic() - began > _SPELL:
            await asyncio.sleep(0)
            began = time.monotonic()
    return tuple(names)
