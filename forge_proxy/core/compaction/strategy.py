"""What a strategy is. One of your own needs no more than `compact`; ours plan, so that the plan can be shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from forge_proxy.core.compaction.cuts import Plan
from forge_proxy.core.messages import Message


class CompactStrategy(ABC):
    """Shortens a history that is too long."""

    @abstractmethod
    def compact(
        self, messages: Sequence[Message], trigger_tokens: int, *, step_hint: str = ""
    ) -> tuple[tuple[Message, ...], int]:
        """The shortened messages and the phase that was reached; 0 where nothing was cut, 1 where there are no phases.

        `trigger_tokens`, by `estimate.messages_tokens`, is what the history is over; a phase whose outcome is not over
        it is the last. It is no aim: a phase cuts what it cuts. `step_hint` says which steps are done, and is told the
        model in the place of results that are dropped.
        """


class NoCompact(CompactStrategy):
    """Leaves the history as it is."""

    def compact(
        self, messages: Sequence[Message], trigger_tokens: int, *, step_hint: str = ""
    ) -> tuple[tuple[Message, ...], int]:
        """See `CompactStrategy`."""
        return tuple(messages), 0


class PlannedCompact(CompactStrategy):
    """A strategy that says what each phase would cut. It never touches the system prompt, what users said, summaries
    and the `keep_recent` latest iterations; the latest one holds what the model has not read yet.
    """

    def __init__(self, keep_recent: int) -> None:
        if keep_recent < 1:
            raise ValueError(f"keep_recent is {keep_recent}: the latest iteration, at least, has to be kept")
        self.keep_recent = keep_recent

    @abstractmethod
    def plans(self, messages: Sequence[Message], *, step_hint: str = "") -> Iterator[Plan]:
        """What each phase cuts, the mildest first, made as they are asked for."""

    def compact(
        self, messages: Sequence[Message], trigger_tokens: int, *, step_hint: str = ""
    ) -> tuple[tuple[Message, ...], int]:
        """See `CompactStrategy`. A phase that leaves no less than the one before is not said to be reached."""
        reached: Plan | None = None
        most = 0
        for plan in self.plans(messages, step_hint=step_hint):
            if plan.saved > most:  # a hint may be longer than what it stands for
                reached, most = plan, plan.saved
            if plan.tokens <= trigger_tokens:
                break
        return (tuple(messages), 0) if reached is None else (reached.apply(messages), reached.phase)
