"""Queries of a history for the strategies: which part is recent, and which message answers which call."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.messages import Message, MessageRole, MessageType

PROTECTED = frozenset({MessageType.SYSTEM_PROMPT, MessageType.USER_INPUT, MessageType.SUMMARY})
NUDGES = frozenset({MessageType.STEP_NUDGE, MessageType.PREREQUISITE_NUDGE, MessageType.RETRY_NUDGE})


def find_recent_start(messages: Sequence[Message], keep: int) -> int:
    """Return the index from which nothing is cut: the start of the `keep` latest iterations, by their `step_index`.

    A repeated `step_index` counts as another iteration if a message without one precedes it, as when a new run resumes
    with the messages of an earlier one. In a history without step indexes, each assistant message starts an iteration.
    """
    starts: list[int] = []
    current: int | None = None
    had_reasoning = False
    for place, message in enumerate(messages):
        step = message.metadata.step_index
        if step is None:
            begins = message.role is MessageRole.ASSISTANT and not had_reasoning
            had_reasoning = message.type is MessageType.REASONING
        else:
            begins, had_reasoning = step != current, False
        if begins:
            starts.append(place)
        current = step
    return starts[-keep:][0] if starts else len(messages)


def is_call_result(message: Message) -> bool:
    """Whether the message is the result that every call needs."""
    return message.role is MessageRole.TOOL


def pair_results_with_calls(messages: Sequence[Message]) -> dict[int, int]:
    """Return the index of the call message for the index of each result. A repeated id refers to the latest call."""
    calls: dict[str, int] = {}
    pairs: dict[int, int] = {}
    for place, message in enumerate(messages):
        for call in message.tool_calls:
            calls[call.id] = place
        if message.tool_call_id is not None and message.tool_call_id in calls:
            pairs[place] = calls[message.tool_call_id]
    return pairs
