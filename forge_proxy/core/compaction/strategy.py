"""Compaction strategies. A custom strategy implements only `compact`; the built-in ones return plans to inspect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from forge_proxy.core.compaction.cuts import CompactionPlan
from forge_proxy.core.messages import Message


class CompactStrategy(ABC):
    """Compacts a history that is too long."""

    @abstractmethod
    def compact(
        self, messages: Sequence[Message], trigger_tokens: int, *, step_hint: str = ""
    ) -> tuple[tuple[Message, ...], int]:
        """Return the compacted messages and the last phase: 0 if nothing was cut, 1 if the strategy has no phases.

        `trigger_tokens` is the limit that the history exceeds, counted by `estimate_messages_tokens`. No further phase
        runs once the result is within it; a phase itself does not stop there. `step_hint` lists the completed steps and
        replaces dropped results.
        """


class NoCompact(CompactStrategy):
    """Returns the history unchanged."""

    def compact(
        self, messages: Sequence[Message], trigger_tokens: int, *, step_hint: str = ""
    ) -> tuple[tuple[Message, ...], int]:
        """See `CompactStrategy`."""
        return tuple(messages), 0


class PlannedCompact(CompactStrategy):
    """A strategy that plans the cuts of each phase.

    It never cuts the system prompt, user messages, summaries or the `keep_recent` latest iterations; the latest one
    contains results that the model has not seen yet.
    """

    def __init__(self, keep_recent: int) -> None:
        if keep_recent < 1:
            raise ValueError(f"keep_recent is {keep_recent}: at least the latest iteration must be kept")
        self.keep_recent = keep_recent

    @abstractmethod
    def plans(self, messages: Sequence[Message], *, step_hint: str = "") -> Iterator[CompactionPlan]:
        """Yield the plan of each phase lazily, the mildest first."""

    def compact(
        self, messages: Sequence[Message], trigger_tokens: int, *, step_hint: str = ""
    ) -> tuple[tuple[Message, ...], int]:
        """See `CompactStrategy`. A phase that saves no more than the previous one does not count as reached."""
        reached: CompactionPlan | None = None
        most = 0
        for plan in self.plans(messages, step_hint=step_hint):
            if plan.saved > most:  # a hint may be longer than the results that it replaces
                reached, most = plan, plan.saved
            if plan.tokens <= trigger_tokens:
                break
        return (tuple(messages), 0) if reached is None else (reached.apply(messages), reached.phase)
