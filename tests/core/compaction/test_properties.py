"""Properties of every strategy for any conversation: calls keep their results, protected messages are not cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.compaction import PlannedCompact, SlidingWindowCompact, TieredCompact
from forge_proxy.core.compaction.history import find_recent_start
from forge_proxy.core.estimate import estimate_messages_tokens
from forge_proxy.core.messages import Message, MessageType
from tests.core.compaction.histories import histories, orphans
from tests.properties import examples

STRATEGIES = st.builds(TieredCompact, st.integers(1, 4), st.integers(1, 300)) | st.builds(
    SlidingWindowCompact, st.integers(1, 4)
)
HINTS = st.sampled_from(["", "[Steps completed: look, find]"])


@given(histories(), STRATEGIES, HINTS)
@examples(300)
def test_every_phase_keeps_a_result_for_each_call(
    messages: tuple[Message, ...], strategy: PlannedCompact, hint: str
) -> None:
    assert orphans(messages) == []

    for plan in strategy.plans(messages, step_hint=hint):
        assert orphans(plan.apply(messages)) == []


@given(histories(), STRATEGIES, HINTS)
@examples(300)
def test_protected_messages_are_kept_in_order(
    messages: tuple[Message, ...], strategy: PlannedCompact, hint: str
) -> None:
    start = find_recent_start(messages, strategy.keep_recent)
    kept = {MessageType.SYSTEM_PROMPT, MessageType.USER_INPUT}
    protected = [m for place, m in enumerate(messages) if place >= start or m.type in kept]

    for plan in strategy.plans(messages, step_hint=hint):
        after = iter(plan.apply(messages))
        assert all(any(one is other for other in after) for one in protected)


@given(histories(), st.integers(1, 4), st.integers(0, 3000))
@examples(300)
def test_tiered_compaction_never_cuts_calls(messages: tuple[Message, ...], keep: int, trigger: int) -> None:
    after, _ = TieredCompact(keep).compact(messages, trigger)

    assert [m for m in after if m.tool_calls] == [m for m in messages if m.tool_calls]


@given(histories(), STRATEGIES)
@examples(300)
def test_no_phase_is_longer_than_the_previous_and_each_reports_its_saving(
    messages: tuple[Message, ...], strategy: PlannedCompact
) -> None:
    before = estimate_messages_tokens(messages)

    for plan in strategy.plans(messages):
        assert plan.tokens <= before
        assert plan.tokens == estimate_messages_tokens(plan.apply(messages))
        assert plan.tokens == estimate_messages_tokens(messages) - sum(cut.saved for cut in plan.cuts)
        before = plan.tokens


@given(histories(), STRATEGIES, HINTS, st.integers(0, 3000))
@examples(300)
def test_compaction_is_deterministic_and_idempotent(
    messages: tuple[Message, ...], strategy: PlannedCompact, hint: str, trigger: int
) -> None:
    after, phase = strategy.compact(messages, trigger, step_hint=hint)

    assert strategy.compact(list(messages), trigger, step_hint=hint) == (after, phase)
    assert estimate_messages_tokens(after) <= estimate_messages_tokens(messages)
    if phase == 0:
        assert after == messages
    again, _ = strategy.compact(after, estimate_messages_tokens(after), step_hint=hint)
    assert again == after


@pytest.mark.parametrize("strategy", [TieredCompact(1), SlidingWindowCompact(1)])
def test_an_empty_history_stays_empty(strategy: PlannedCompact) -> None:
    assert strategy.compact((), 0) == ((), 0)
