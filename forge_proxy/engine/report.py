"""What answering a request took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge_proxy.core.guardrails import Mark, Outcome
from forge_proxy.core.guardrails.turn import Fault

_LONGEST_NAME, _LONGEST = 64, 160
"""Characters of a tool's name and of what was done: names may be whatever a model wrote."""


@dataclass(frozen=True, slots=True)
class Report:
    """The last thing an answer yields. `tokens` are those of all attempts, None where the backend does not say."""

    outcome: Outcome
    attempts: int = 1
    faults: tuple[Fault, ...] = ()
    marks: tuple[Mark, ...] = ()
    tokens: int | None = None

    @property
    def done(self) -> tuple[str, ...]:
        """What was done to calls and answer, as `repaired get_weather: days: string → integer`: never a value."""
        return tuple(_told(mark) for mark in self.marks)


def as_fits(parts: Sequence[str], room: int) -> list[str]:
    """As many parts as have room, in characters with two between them, and how many more there are."""
    kept: list[str] = []
    for number, part in enumerate(parts):
        room -= len(part) + 2
        if room < 0:
            return [*kept, f"and {len(parts) - number} more"]
        kept.append(part)
    return kept


def _told(mark: Mark) -> str:
    detail = _cut(mark.detail, _LONGEST)
    return f"{mark.kind.value} {_cut(mark.tool, _LONGEST_NAME)}: {detail}" if mark.tool else detail


def _cut(words: str, longest: int) -> str:
    return words if len(words) <= longest else f"{words[:longest]}…"
