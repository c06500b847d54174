"""Compiles the schemas and grammars of a request's tools in slices and finds the unusable ones.

Each set of tools is reported once, not with every request that contains the same tools.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence

from forge_proxy.core.chat import ToolGrammar, ToolSpec
from forge_proxy.core.guardrails import Turn
from forge_proxy.core.guardrails.schema.compiled import find_uncheckable_tools
from forge_proxy.core.tool_grammars.compiled import compile_grammar

_MAX_REPORTED = 256
_SLICE = 32
"""Schemas compiled before the event loop runs other tasks: each takes a tenth of a millisecond if it has no patterns.
"""
_SLICE_SECONDS = 0.005
"""Seconds of compiling after which the event loop runs other tasks: schemas with patterns take long."""


class UnvalidatedTools:
    """The sets of tools that were reported for earlier requests."""

    def __init__(self) -> None:
        self._reported: deque[tuple[str, ...]] = deque(maxlen=_MAX_REPORTED)

    async def find_unreported(self, turn: Turn) -> tuple[str, ...]:
        """Return the tools whose schemas or grammars are unusable; an empty tuple if that was reported recently.

        This compiles all schemas and grammars, in slices; they are cached for their later use.
        """
        names = await _find_uncheckable(turn.tools) if turn.policy.enabled.validate_calls else ()
        if not names or names in self._reported:
            return ()
        self._reported.append(names)
        return names


async def _find_uncheckable(tools: Sequence[ToolSpec]) -> tuple[str, ...]:
    names: list[str] = []
    began = time.monotonic()
    for place, tool in enumerate(tools, 1):
        if find_uncheckable_tools((tool,)) or (tool.grammar and await _is_unusable(tool.grammar)):
            names.append(tool.name)
        if place % _SLICE == 0 or time.monotonic() - began > _SLICE_SECONDS:
            await asyncio.sleep(0)
            began = time.monotonic()
    return tuple(names)


async def _is_unusable(grammar: ToolGrammar) -> bool:
    # A short grammar may take 0.2 s, because rules that refer to each other multiply.
    return await asyncio.to_thread(compile_grammar, grammar) is None
