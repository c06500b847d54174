"""The latest iterations are kept, older ones are dropped as a whole."""

from __future__ import annotations

from dataclasses import replace

from forge_proxy.core.compaction import NoCompact, SlidingWindowCompact, TieredCompact
from forge_proxy.core.messages import Message, MessageMeta, MessageRole, MessageType
from tests.core.compaction.histories import chatter, head, orphans, step

HISTORY = (*head(), *step(0, "a", "b", thought="Two."), *chatter(1), *step(2, "c"), *step(3, "d", "e"))


def test_the_head_and_the_latest_iterations_are_kept() -> None:
    after, phase = SlidingWindowCompact(keep_recent=2).compact(HISTORY, 0)

    assert (after, phase) == ((*head(), *step(2, "c"), *step(3, "d", "e")), 1)


def test_user_messages_in_between_are_kept() -> None:
    messages = (*step(0, "a"), *head(user="And now?")[1:], *step(1, "b"))

    after, _ = SlidingWindowCompact(keep_recent=1).compact(messages, 0)

    assert after == messages[2:]


def test_a_repeated_step_index_after_a_user_message_is_another_iteration() -> None:
    messages = (*head(), *step(0, "a"), *head(user="And now?")[1:], *step(0, "b"))

    after, _ = SlidingWindowCompact(keep_recent=1).compact(messages, 0)

    assert after == (*head(), *head(user="And now?")[1:], *step(0, "b"))


def test_a_call_with_a_result_in_a_kept_iteration_is_kept_with_all_its_results() -> None:
    early, late = step(0, "a", "b"), step(2, "c")
    messages = (*head(), *early[:2], early[2].at(2), *late)

    after, _ = SlidingWindowCompact(keep_recent=1).compact(messages, 0)

    assert after == messages


def test_the_completed_steps_replace_the_last_dropped_message() -> None:
    strategy = SlidingWindowCompact(keep_recent=1)
    once, _ = strategy.compact(HISTORY, 0, step_hint="[Steps completed: a]")

    twice, _ = strategy.compact((*once, *step(4, "f")), 0, step_hint="[Steps completed: a, b]")

    assert [(m.role, m.content) for m in twice[2:3]] == [
        (MessageRole.USER, "[Earlier steps dropped to save context] [Steps completed: a, b]")
    ]
    assert twice[3:] == tuple(step(4, "f"))


def test_placeholders_of_another_strategy_are_dropped_with_their_calls() -> None:
    tiered, _ = TieredCompact(keep_recent=1).compact((*head(), *step(0, "x" * 900), *step(1, "b")), 0)
    assert MessageType.SUMMARY in [message.type for message in tiered]

    after, _ = SlidingWindowCompact(keep_recent=1).compact(tiered, 0)

    assert orphans(after) == []
    assert after == (*head(), *step(1, "b"))


def test_no_compact_changes_nothing() -> None:
    assert NoCompact().compact(HISTORY, 0) == (HISTORY, 0)


def test_a_hint_longer_than_the_dropped_messages_is_omitted() -> None:
    messages = (*head(), *step(0, "a"), *step(1, "b"), *step(2, "c"))

    after, phase = SlidingWindowCompact().compact(messages, 0, step_hint=f"[Steps completed: {'look, ' * 50}]")

    assert (after, phase) == (messages, 0)


def test_without_step_indexes_each_assistant_message_begins_an_iteration() -> None:
    def unnumbered(index: int, *results: str) -> list[Message]:
        return [replace(one, metadata=MessageMeta(one.type)) for one in step(index, *results, thought="Hm.")]

    messages = (*head(), *unnumbered(0, "a" * 99), *unnumbered(1, "b" * 99), *unnumbered(2, "c", "d"))

    after, _ = SlidingWindowCompact(keep_recent=1).compact(messages, 0)

    assert after == (*head(), *unnumbered(2, "c", "d"))
