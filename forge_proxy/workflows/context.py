"""Tracks how full the context of one conversation is, and compacts it.

Tokens are estimated by the length of texts and calibrated by what the model server reports or counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from forge_proxy.core.compaction import CompactStrategy
from forge_proxy.core.estimate import Calibration, estimate_messages_tokens
from forge_proxy.core.messages import Message

Count: TypeAlias = Callable[[tuple[Message, ...]], Awaitable[int | None]]
"""Counts the exact prompt tokens of these messages and of everything sent with them; None if that is impossible."""
_COUNTING_SHARE = 0.5
"""Share of the threshold from which tokens are counted, if possible: estimates are rarely off by more."""
_MAX_COMPACTIONS = 4
"""Maximum number of compactions by exact counts: one more than there are phases."""


@dataclass(frozen=True, slots=True)
class CompactEvent:
    """A context was compacted. Tokens are estimates for the messages and the tools."""

    step_index: int
    tokens_before: int
    tokens_after: int
    budget_tokens: int
    messages_before: int
    messages_after: int
    phase_reached: int


@dataclass(frozen=True, slots=True)
class ContextLevel:
    """The context has exceeded a threshold, which is a share of the budget."""

    threshold: float
    tokens: int
    budget_tokens: int
    step_index: int


OnLevel: TypeAlias = Callable[[ContextLevel], None]


class ContextManager:
    """Compacts a conversation by a strategy if it exceeds `compact_threshold` of the budget.

    `context_thresholds` maps shares of the budget to callbacks; each is called when the context exceeds its share, and
    again only after the context has been below it. In all methods `tool_tokens` is the estimated number of tokens of
    the tools, which are sent with the messages. Callbacks are called synchronously and their exceptions propagate.
    """

    def __init__(
        self,
        strategy: CompactStrategy,
        budget_tokens: int,
        compact_threshold: float = 0.75,
        on_compact: Callable[[CompactEvent], None] | None = None,
        context_thresholds: Mapping[float, OnLevel] | None = None,
    ) -> None:
        """Raises `ValueError` for an invalid budget or share, `TypeError` for an object that is not a strategy."""
        if not isinstance(strategy, CompactStrategy):  # pyright: ignore[reportUnnecessaryIsInstance]  # not all are typed
            raise TypeError(f"strategy: expected a CompactStrategy, as TieredCompact(), got {strategy!r}")
        if budget_tokens < 1:
            raise ValueError(f"budget_tokens is {budget_tokens}: expected a positive number")
        thresholds = sorted((context_thresholds or {}).items(), key=lambda item: item[0])
        _check_share("compact_threshold", compact_threshold)
        for share, _ in thresholds:
            _check_share("context_thresholds", share)
        self.strategy = strategy
        self.budget_tokens = budget_tokens
        self.compact_threshold = compact_threshold
        self.calibration = Calibration()
        self._on_compact = on_compact
        self._thresholds = thresholds
        self._last_share = 0.0

    @property
    def trigger_tokens(self) -> int:
        """Tokens above which a conversation is compacted."""
        return int(self.budget_tokens * self.compact_threshold)

    def estimate_tokens(self, messages: Sequence[Message], tool_tokens: int = 0) -> int:
        """Estimate the tokens of the prompt by its texts and the usage reported so far."""
        return self.calibration.to_tokens(estimate_messages_tokens(messages) + tool_tokens)

    def is_over_budget(self, messages: Sequence[Message], tool_tokens: int = 0) -> bool:
        """Return whether the prompt is too long for the model."""
        return self.estimate_tokens(messages, tool_tokens) > self.budget_tokens

    def observe_usage(self, messages: Sequence[Message], prompt_tokens: int, tool_tokens: int = 0) -> None:
        """Calibrate by the prompt tokens that the model server reports for these messages."""
        self.calibration = self.calibration.update(estimate_messages_tokens(messages) + tool_tokens, prompt_tokens)

    def maybe_compact(
        self, messages: Sequence[Message], step_index: int = 0, step_hint: str = "", tool_tokens: int = 0
    ) -> tuple[Message, ...]:
        """Return the messages, compacted if they are over the threshold. `step_hint` is passed to the strategy."""
        before = tuple(messages)
        tokens = self.estimate_tokens(before, tool_tokens)
        self._report_thresholds(tokens, step_index)
        if tokens <= self.trigger_tokens:
            return before
        trigger = max(0, self.calibration.to_estimate(self.trigger_tokens) - tool_tokens)
        kept, phase = self.strategy.compact(before, trigger, step_hint=step_hint)
        after = tuple(kept)  # a custom strategy may return a list
        if phase == 0:
            return after
        tokens_after = self.estimate_tokens(after, tool_tokens)
        self._report_thresholds(tokens_after, step_index)
        if self._on_compact is not None:
            self._on_compact(
                CompactEvent(step_index, tokens, tokens_after, self.budget_tokens, len(before), len(after), phase)
            )
        return after

    async def maybe_compact_counted(
        self, messages: Sequence[Message], count: Count, step_index: int = 0, step_hint: str = "", tool_tokens: int = 0
    ) -> tuple[Message, ...]:
        """Compact like `maybe_compact`, by exact counts if available.

        Counts are requested once the estimate is near the threshold, and after each compaction. Raises what `count`
        raises.
        """
        now = tuple(messages)
        for _ in range(_MAX_COMPACTIONS):
            if self.estimate_tokens(now, tool_tokens) > _COUNTING_SHARE * self.trigger_tokens:
                self._calibrate(now, await count(now), tool_tokens)
            shorter = self.maybe_compact(now, step_index, step_hint, tool_tokens)
            if shorter == now:
                break
            now = shorter
        return now

    def _calibrate(self, messages: tuple[Message, ...], tokens: int | None, tool_tokens: int) -> None:
        """Replace the calibration by the exact count of these messages."""
        if tokens is not None:
            self.calibration = Calibration.from_count(estimate_messages_tokens(messages) + tool_tokens, tokens)

    def _report_thresholds(self, tokens: int, step_index: int) -> None:
        before, self._last_share = self._last_share, tokens / self.budget_tokens
        for threshold, callback in self._thresholds:
            if before < threshold <= self._last_share:
                callback(ContextLevel(threshold, tokens, self.budget_tokens, step_index))


def _check_share(name: str, share: float) -> None:
    if not 0 < share <= 1:
        raise ValueError(f"{name} has {share}: expected a share of the budget, over 0 and at most 1")
