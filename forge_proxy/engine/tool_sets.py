"""Which tools cannot be guarded fully, said once and not with every request that brings the same tools again."""

from __future__ import annotations

from collections import deque

from forge_proxy.core.guardrails import Turn
from forge_proxy.core.guardrails.schema import uncheckable

_REMEMBERED = 256


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
