"""What a strategy asks of a history: what of it is recent, and which message answers which call."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.messages import Message, MessageRole, MessageType

PROTECTED = frozenset({MessageType.SYSTEM_PROMPT, MessageType.USER_INPUT, MessageType.SUMMARY})
NUDGES = frozenset({MessageType.STEP_NUDGE, MessageType.PREREQUISITE_NUDGE, MessageType.RETRY_NUDGE})


def find_recent_start(messages: Sequence[Message], keep: int) -> int:
    """The place from which on nothing is cut: where the `keep` latest iterations begin, by their `step_index`.

    A number that comes again, as when a new run goes on with an old one's messages, is another iteration when a message
    from before all iterations stands between. In a history that was made by hand, without numbers, each of an
    assistant's messages begins one.
    """
    starts: list[int] = []
    current: int | None = None
    thought = False
    for place, message in enumerate(messages):
        step = message.metadata.step_index
        if step is None:
            begins = message.role is MessageRole.ASSISTANT and not thought
            thought = message.type is MessageType.REASONING
        else:
            begins, thought = step != current, False
        if begins:
            starts.append(place)
        current = step
    return starts[-keep:][0] if starts else len(messages)


def is_call_result(message: Message) -> bool:
    """Whether it stands after a call as the answer that every call needs."""
    return message.role is MessageRole.TOOL


def pair_results_with_calls(messages: Sequence[Message]) -> dict[int, int]:
    """The place of the call message for each place of an answer. Ids that come again are those of the latest call."""
    calls: dict[str, int] = {}
    pairs: dict[int, int] = {}
    for place, message in enumerate(messages):
        for call in message.tool_calls:
            calls[call.id] = place
        if message.tool_call_id is not None and message.tool_call_id in calls:
            pairs[place] = calls[message.tool_call_id]
    return pairs
