"""The context of one conversation: how full it is, and when it is shortened.

Tokens are estimated by the length of texts, and set right by what the model server reports or counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from forge_proxy.core.compaction import CompactStrategy
from forge_proxy.core.estimate import Calibration, messages_tokens
from forge_proxy.core.messages import Message

Count: TypeAlias = Callable[[tuple[Message, ...]], Awaitable[int | None]]
"""Exactly how many tokens the prompt of these messages has, with all that is sent beside them; None where that cannot
be said."""
_COUNTED_FROM = 0.5
"""The share of the threshold from which on tokens are counted, where they can be: an estimate is rarely further off."""
_ROUNDS = 4
"""How often a history is shortened by counts: once more than there are phases."""


@dataclass(frozen=True, slots=True)
class CompactEvent:
    """A history was shortened. Tokens are estimates, of messages and what is sent beside them."""

    step_index: int
    tokens_before: int
    tokens_after: int
    budget_tokens: int
    messages_before: int
    messages_after: int
    phase_reached: int


@dataclass(frozen=True, slots=True)
class ContextLevel:
    """The context has become fuller than a threshold, which is a share of the budget."""

    threshold: float
    tokens: int
    budget_tokens: int
    step_index: int


OnLevel: TypeAlias = Callable[[ContextLevel], None]


class ContextManager:
    """Shortens a conversation by a strategy when it is over `compact_threshold` of the budget.

    `context_thresholds` are callbacks by shares of the budget, each called when the context becomes fuller than that,
    and again only after it was not. In all methods `beside` are the estimated tokens of what is sent with the messages:
    the tools. Its callbacks are called in place; what they raise is raised.
    """

    def __init__(
        self,
        strategy: CompactStrategy,
        budget_tokens: int,
        compact_threshold: float = 0.75,
        on_compact: Callable[[CompactEvent], None] | None = None,
        context_thresholds: Mapping[float, OnLevel] | None = None,
    ) -> None:
        """Raises `ValueError` for a budget or a share that can be none, `TypeError` for what is no strategy."""
        if not isinstance(strategy, CompactStrategy):  # pyright: ignore[reportUnnecessaryIsInstance]  # not all are typed
            raise TypeError(f"strategy: expected a CompactStrategy, as TieredCompact(), got {strategy!r}")
        if budget_tokens < 1:
            raise ValueError(f"budget_tokens is {budget_tokens}: expected a positive number")
        thresholds = sorted((context_thresholds or {}).items(), key=lambda item: item[0])
        _refuse_no_share("compact_threshold", compact_threshold)
        for share, _ in thresholds:
            _refuse_no_share("context_thresholds", share)
        self.strategy = strategy
        self.budget_tokens = budget_tokens
        self.compact_threshold = compact_threshold
        self.calibration = Calibration()
        self._on_compact = on_compact
        self._thresholds = thresholds
        self._share = 0.0

    @property
    def trigger_tokens(self) -> int:
        """Tokens over which a conversation is shortened."""
        return int(self.budget_tokens * self.compact_threshold)

    def estimate_tokens(self, messages: Sequence[Message], beside: int = 0) -> int:
        """About how many tokens the prompt has, by the texts and by what was reported so far."""
        return self.calibration.tokens(messages_tokens(messages) + beside)

    def is_over_budget(self, messages: Sequence[Message], beside: int = 0) -> bool:
        """Whether the prompt is too long for the model, so that it need not be asked."""
        return self.estimate_tokens(messages, beside) > self.budget_tokens

    def observe_usage(self, messages: Sequence[Message], prompt_tokens: int, beside: int = 0) -> None:
        """The model server reports that the prompt of these messages had so many tokens."""
        self.calibration = self.calibration.observed(messages_tokens(messages) + beside, prompt_tokens)

    def maybe_compact(
        self, messages: Sequence[Message], step_index: int = 0, step_hint: str = "", beside: int = 0
    ) -> tuple[Message, ...]:
        """The messages, shortened where they are over the threshold. `step_hint` is passed on to the strategy."""
        before = tuple(messages)
        tokens = self.estimate_tokens(before, beside)
        self._tell_level(tokens, step_index)
        if tokens <= self.trigger_tokens:
            return before
        trigger = max(0, self.calibration.estimated(self.trigger_tokens) - beside)
        kept, phase = self.strategy.compact(before, trigger, step_hint=step_hint)
        after = tuple(kept)  # one's own strategy may make a list
        if phase == 0:
            return after
        left = self.estimate_tokens(after, beside)
        self._tell_level(left, step_index)
        if self._on_compact is not None:
            self._on_compact(CompactEvent(step_index, tokens, left, self.budget_tokens, len(before), len(after), phase))
        return after

    async def maybe_compact_counted(
        self, messages: Sequence[Message], count: Count, step_index: int = 0, step_hint: str = "", beside: int = 0
    ) -> tuple[Message, ...]:
        """The same by exact counts, where there are any: asked for once the estimate is near the threshold, and after
        each shortening. Raises what `count` does.
        """
        now = tuple(messages)
        for _ in range(_ROUNDS):
            if self.estimate_tokens(now, beside) > _COUNTED_FROM * self.trigger_tokens:
                self._counted(now, await count(now), beside)
            shorter = self.maybe_compact(now, step_index, step_hint, beside)
            if shorter == now:
                break
            now = shorter
        return now

    def _counted(self, messages: tuple[Message, ...], tokens: int | None, beside: int) -> None:
        """What was counted for these very messages holds for them, whatever was reported of others."""
        if tokens is not None:
            self.calibration = Calibration.of(messages_tokens(messages) + beside, tokens)

    def _tell_level(self, tokens: int, step_index: int) -> None:
        before, self._share = self._share, tokens / self.budget_tokens
        for threshold, tell in self._thresholds:
            if before < threshold <= self._share:
                tell(ContextLevel(threshold, tokens, self.budget_tokens, step_index))


def _refuse_no_share(name: str, share: float) -> None:
    if not 0 < share <= 1:
        raise ValueError(f"{name} has {share}: expected a share of the budget, over 0 and at most 1")
