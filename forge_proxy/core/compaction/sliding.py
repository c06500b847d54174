"""Compaction to the latest iterations, next to the system prompt and the user messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forge_proxy.core.compaction.cuts import CompactionPlan, Cut, drop_message, make_plan, replace_message
from forge_proxy.core.compaction.history import PROTECTED, find_recent_start, is_call_result, pair_results_with_calls
from forge_proxy.core.compaction.strategy import PlannedCompact
from forge_proxy.core.estimate import estimate_messages_tokens
from forge_proxy.core.messages import Message, MessageMeta, MessageRole, MessageType

_STEPS_DROPPED = "[Earlier steps dropped to save context]"
_WHY = "it is older than the latest iterations"
_HINT_WHY = "a later message states the completed steps"


class SlidingWindowCompact(PlannedCompact):
    """Drops whole iterations: everything older than the `keep_recent` latest ones. It has one phase."""

    def __init__(self, keep_recent: int = 2) -> None:
        """Raise `ValueError` if `keep_recent` is less than 1."""
        super().__init__(keep_recent)

    def plans(self, messages: Sequence[Message], *, step_hint: str = "") -> Iterator[CompactionPlan]:
        """See `PlannedCompact`."""
        start = find_recent_start(messages, self.keep_recent)
        pairs = pair_results_with_calls(messages)
        needed = {call for answer, call in pairs.items() if call < start <= answer}
        cuts = [
            drop_message(index, message, 1, _WHY)
            for index, message in enumerate(messages[:start])
            if not _is_protected(message) and index not in needed and pairs.get(index) not in needed
        ]
        if step_hint and cuts:
            _insert_hint(step_hint, messages, cuts, before=min(needed, default=start))
        yield make_plan(1, estimate_messages_tokens(messages), cuts)


def _is_protected(message: Message) -> bool:
    # The placeholder of a result is dropped with its call.
    return message.type in PROTECTED and not is_call_result(message)


def _insert_hint(hint: str, messages: Sequence[Message], cuts: list[Cut], *, before: int) -> None:
    """Replace the last cut message before any kept call by the hint, and drop older hints."""
    older_hints = [
        drop_message(index, message, 1, _HINT_WHY)
        for index, message in enumerate(messages[:before])
        if message.type is MessageType.SUMMARY and message.content.startswith(_STEPS_DROPPED)
    ]
    last = max((place for place, cut in enumerate(cuts) if cut.index < before), default=None)
    if last is None:
        return
    cut = cuts[last]
    # A user message, because many chat templates reject a system message in the middle.
    meta = MessageMeta(MessageType.SUMMARY, original_type=MessageType.TOOL_RESULT)
    summary = Message(MessageRole.USER, f"{_STEPS_DROPPED} {hint}", meta)
    cuts[last] = replace_message(cut.index, messages[cut.index], 1, "replaced", _WHY, summary)
    cuts += older_hints
