"""Compaction of a conversation: thresholds, events and the calibration of estimates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from forge_proxy.core.compaction import CompactStrategy, NoCompact, TieredCompact
from forge_proxy.core.messages import Message
from forge_proxy.workflows.context import CompactEvent, ContextLevel, ContextManager
from tests.core.compaction.histories import head, step

LONG = "x" * 1000
MESSAGES = (*head(), *step(0, LONG), *step(1, LONG), *step(2, LONG), *step(3, LONG))
"""About 1,070 tokens."""


def test_a_context_below_the_threshold_is_unchanged() -> None:
    events: list[CompactEvent] = []
    context = ContextManager(TieredCompact(), 2000, on_compact=events.append)

    assert context.maybe_compact(MESSAGES) is MESSAGES
    assert events == []


def test_a_context_above_the_threshold_is_compacted_and_reported() -> None:
    events: list[CompactEvent] = []
    context = ContextManager(TieredCompact(), 1000, on_compact=events.append)

    after = context.maybe_compact(MESSAGES, step_index=4, step_hint="[Steps completed: look]")

    before, left = context.estimate_tokens(MESSAGES), context.estimate_tokens(after)
    assert events == [CompactEvent(4, before, left, 1000, 10, 10, 1)]
    assert before > 1000 > 750 >= left
    assert not context.is_over_budget(after)


def test_without_a_strategy_the_context_stays_over_budget() -> None:
    events: list[CompactEvent] = []
    context = ContextManager(NoCompact(), 1000, on_compact=events.append)

    assert context.is_over_budget(context.maybe_compact(MESSAGES))
    assert events == []


def test_the_tokens_of_the_tools_count() -> None:
    context = ContextManager(TieredCompact(), 2000)

    assert context.maybe_compact(MESSAGES, tool_tokens=400) is MESSAGES
    assert len(str(context.maybe_compact(MESSAGES, tool_tokens=600))) < len(str(MESSAGES))
    assert context.is_over_budget(MESSAGES, tool_tokens=1000)


def test_estimates_follow_what_the_model_server_reports() -> None:
    context = ContextManager(TieredCompact(), 2000)
    estimated = context.estimate_tokens(MESSAGES)

    context.observe_usage(MESSAGES, 2 * estimated)
    assert context.estimate_tokens(MESSAGES) == 2 * estimated
    context.observe_usage(MESSAGES, estimated)
    assert context.estimate_tokens(MESSAGES) == round(1.5 * estimated)

    assert context.maybe_compact(MESSAGES) != MESSAGES


def test_each_threshold_is_reported_when_the_context_exceeds_it() -> None:
    reported: list[ContextLevel] = []
    context = ContextManager(NoCompact(), 1000, context_thresholds={0.9: reported.append, 0.5: reported.append})

    for messages in (MESSAGES[:4], MESSAGES[:6], MESSAGES[:8], MESSAGES, MESSAGES[:4], MESSAGES[:6]):
        context.maybe_compact(messages, step_index=len(messages))

    assert [(level.threshold, level.step_index) for level in reported] == [(0.5, 6), (0.9, 10), (0.5, 6)]
    assert reported[0].tokens == context.estimate_tokens(MESSAGES[:6])


def test_a_threshold_is_reported_again_after_a_compaction() -> None:
    reported: list[ContextLevel] = []
    context = ContextManager(TieredCompact(keep_recent=1), 1000, context_thresholds={0.7: reported.append})

    after = context.maybe_compact(MESSAGES)
    context.maybe_compact((*after, *step(4, LONG), *step(5, LONG)))

    assert [level.threshold for level in reported] == [0.7, 0.7]


async def test_exact_counts_replace_estimates_if_available() -> None:
    counted: list[int] = []

    async def count(messages: tuple[Message, ...]) -> int:
        counted.append(sum(len(message.content) for message in messages))
        return counted[-1]  # one token per character, four times the estimate

    context = ContextManager(TieredCompact(keep_recent=1), 2000)

    after = await context.maybe_compact_counted(MESSAGES, count)

    assert sum(len(message.content) for message in after) <= 1500
    assert counted[0] > 4000
    assert counted[-1] <= 1500
    assert context.maybe_compact(after) is after


async def test_an_implausible_count_is_used() -> None:
    context = ContextManager(TieredCompact(), 1000)

    async def count(messages: tuple[Message, ...]) -> int:
        return 3 * len(messages)

    assert await context.maybe_compact_counted(MESSAGES, count) is MESSAGES
    assert not context.is_over_budget(MESSAGES)
    assert context.estimate_tokens(MESSAGES) == 30


async def test_a_context_far_below_the_threshold_is_not_counted() -> None:
    async def count(messages: tuple[Message, ...]) -> int:
        raise AssertionError(messages)

    context = ContextManager(TieredCompact(), 20_000)

    assert await context.maybe_compact_counted(MESSAGES, count) is MESSAGES


@pytest.mark.parametrize(
    ("budget", "threshold", "levels", "named"),
    [
        (0, 0.75, {}, "budget_tokens"),
        (100, 0.0, {}, "compact_threshold"),
        (100, 1.5, {}, "compact_threshold"),
        (100, 0.5, {7: print}, "context_thresholds"),
    ],
)
def test_an_invalid_budget_or_threshold_is_refused(
    budget: int, threshold: float, levels: dict[float, object], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        ContextManager(TieredCompact(), budget, threshold, context_thresholds=levels)  # pyright: ignore[reportArgumentType]


def test_the_name_of_a_strategy_is_refused() -> None:
    with pytest.raises(TypeError, match="strategy: expected a CompactStrategy"):
        ContextManager("tiered", 1000)  # pyright: ignore[reportArgumentType]


async def test_a_strategy_may_return_a_list() -> None:
    class Keeps(CompactStrategy):
        def compact(self, messages: Sequence[Message], trigger_tokens: int, *, step_hint: str = "") -> Any:
            return list(messages), 0

    counted: list[int] = []

    async def count(messages: tuple[Message, ...]) -> int:
        counted.append(len(messages))
        return 2000

    assert await ContextManager(Keeps(), 1000).maybe_compact_counted(MESSAGES, count) == MESSAGES
    assert len(counted) == 1
