"""The order of cuts by message type, and the placeholders of each phase."""

from __future__ import annotations

import pytest

from forge_proxy.core.compaction import Cut, TieredCompact
from forge_proxy.core.compaction.tiered import REFUSAL_DROPPED, RESULT_DROPPED
from forge_proxy.core.messages import Message, MessageRole, MessageType
from tests.core.compaction.histories import chatter, head, step

LONG = "x" * 1000
OLD = [
    *head(),
    *step(0, LONG, LONG, thought="Two to look at."),
    *step(1, "You must look at all of the suppliers before the audit is handed in.", refused=MessageType.STEP_NUDGE),
    *chatter(2),
    *step(3, "ok"),
]
RECENT = [*chatter(4), *step(5, LONG, thought="Nearly there.")]
HISTORY = (*OLD, *RECENT)


def shortened(phase: int, messages: tuple[Message, ...] = HISTORY, hint: str = "") -> list[Message]:
    """Return the policy that triggers at the size after that phase."""
    trigger = list(TieredCompact().plans(messages, step_hint=hint))[phase - 1].tokens
    after, reached = TieredCompact().compact(messages, trigger, step_hint=hint)
    assert reached == phase
    return list(after)


def contents(messages: list[Message], kind: MessageType) -> list[str]:
    return [message.content for message in messages if message.type is kind]


def test_each_cut_has_the_number_of_its_phase() -> None:
    plan = list(TieredCompact().plans(HISTORY))[-1]

    phases = {(HISTORY[cut.index].type, cut.phase) for cut in plan.cuts}

    assert phases == {
        (MessageType.STEP_NUDGE, 1),
        (MessageType.RETRY_NUDGE, 1),
        (MessageType.TOOL_RESULT, 2),
        (MessageType.REASONING, 3),
        (MessageType.TEXT_RESPONSE, 3),
    }


def test_phase_1_drops_corrections_and_truncates_results() -> None:
    after = shortened(1)

    truncated = "x" * 200 + "\n[Truncated — 800 chars removed]"
    assert contents(after, MessageType.TOOL_RESULT) == [truncated, truncated, "ok", LONG]
    assert contents(after, MessageType.STEP_NUDGE) == []
    assert contents(after, MessageType.RETRY_NUDGE) == ["Call a tool."]  # the recent one
    assert len(contents(after, MessageType.REASONING)) == 2
    assert len(contents(after, MessageType.TEXT_RESPONSE)) == 2


def test_phase_2_drops_results_and_keeps_reasoning() -> None:
    after = shortened(2)

    assert contents(after, MessageType.TOOL_RESULT) == ["ok", LONG]  # shorter than its placeholder would be, and recent
    assert contents(after, MessageType.SUMMARY) == [RESULT_DROPPED, RESULT_DROPPED, REFUSAL_DROPPED]
    assert contents(after, MessageType.REASONING) == ["Two to look at.", "Nearly there."]


def test_phase_3_keeps_the_calls() -> None:
    after = shortened(3)

    assert contents(after, MessageType.REASONING) == ["Nearly there."]
    assert len(contents(after, MessageType.TEXT_RESPONSE)) == 1
    calls = [message for message in HISTORY if message.type is MessageType.TOOL_CALL]
    assert [message for message in after if message.type is MessageType.TOOL_CALL] == calls


@pytest.mark.parametrize("phase", [1, 2, 3])
def test_the_head_and_recent_messages_are_kept_unchanged(phase: int) -> None:
    after = shortened(phase)

    kept = [*HISTORY[:2], *RECENT]
    assert [*after[:2], *after[-len(RECENT) :]] == kept
    assert all(one is other for one, other in zip([*after[:2], *after[-len(RECENT) :]], kept, strict=True))


def test_a_placeholder_answers_the_same_call_and_states_what_it_replaces() -> None:
    stand_in = next(message for message in shortened(2) if message.type is MessageType.SUMMARY)

    assert (stand_in.role, stand_in.tool_call_id, stand_in.tool_name) == (MessageRole.TOOL, "c0-0", "look")
    assert stand_in.metadata.original_type is MessageType.TOOL_RESULT
    assert stand_in.metadata.step_index == 0


def test_the_completed_steps_replace_the_dropped_results_once() -> None:
    after = shortened(2, hint="[Steps completed: look]")

    told = [text for text in contents(after, MessageType.SUMMARY) if "completed" in text]
    assert told == [f"{RESULT_DROPPED} [Steps completed: look]"]
    assert "completed" not in str(shortened(1, hint="[Steps completed: look]"))


def test_a_newer_hint_replaces_the_older_one() -> None:
    once = shortened(2, hint="[Steps completed: one]")

    more = (*once, *step(6, LONG), *step(7, LONG))
    twice, _ = TieredCompact().compact(more, 600, step_hint="[Steps completed: one, two]")

    assert [text for text in contents(list(twice), MessageType.SUMMARY) if "completed" in text] == [
        f"{RESULT_DROPPED} [Steps completed: one, two]"
    ]


def test_a_history_of_recent_messages_is_not_cut() -> None:
    messages = (*head(), *step(0, LONG), *step(1, LONG))

    assert TieredCompact(keep_recent=2).compact(messages, 0) == (messages, 0)


def test_truncation_does_not_split_a_surrogate_pair() -> None:
    paired = "x" * 199 + "\ud83d\ude00" + LONG  # as two code units, which is how some readers hand it on

    after, _ = TieredCompact(keep_recent=1).compact((*head(), *step(0, paired), *step(1, "ok")), 10**6)

    assert after[3].content.startswith("x" * 199 + "\n[Truncated — 1002 chars")


def test_a_plan_lists_the_cuts_and_their_reasons() -> None:
    first, second, third = TieredCompact().plans(HISTORY)

    def told(cut: Cut) -> tuple[int, str, str]:
        return cut.index, cut.type.value, cut.kind

    truncated = [(4, "tool_result", "truncated"), (5, "tool_result", "truncated")]
    nudges = [(7, "step_nudge", "replaced"), (9, "retry_nudge", "dropped")]
    assert [told(cut) for cut in first.cuts] == truncated + nudges
    replaced = [(4, "tool_result", "replaced"), (5, "tool_result", "replaced")]
    assert [told(cut) for cut in second.cuts] == replaced + nudges
    assert [told(cut) for cut in third.cuts if cut.phase == 3] == [
        (2, "reasoning", "dropped"),
        (8, "text_response", "dropped"),
    ]
    assert all(cut.reason for cut in third.cuts)


@pytest.mark.parametrize(("keep", "chars", "named"), [(0, 200, "keep_recent"), (2, 0, "truncate_chars")])
def test_invalid_limits_are_rejected(keep: int, chars: int, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        TieredCompact(keep, chars)
