"""Compaction in three phases, each only if the previous one was not enough: corrections, results, then reasoning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from forge_proxy.core.compaction.cuts import CompactionPlan, Cut, drop_message, make_plan, replace_message
from forge_proxy.core.compaction.history import NUDGES, find_recent_start, is_call_result
from forge_proxy.core.compaction.strategy import PlannedCompact
from forge_proxy.core.estimate import estimate_messages_tokens, estimate_text_tokens
from forge_proxy.core.messages import Message, MessageType

RESULT_DROPPED = "[Result dropped to save context]"
REFUSAL_DROPPED = "[Refused; the reason was dropped to save context]"
_MIN_SAVING = 64
"""Minimum characters saved by truncating a result: more than the truncation note has, so that a truncated result is not
truncated again."""
_TRUNCATED_WHY = "an old result is cut to its beginning"
_REPLACED_WHY = "an old result can be requested again; a note replaces it"
_NUDGE_WHY = "an old correction is no longer needed"
_REFUSAL_WHY = f"{_NUDGE_WHY}; a note replaces it"
_HINT_WHY = "a later message states the completed steps"
_LAST_RESORT = {
    MessageType.TEXT_RESPONSE: "old text is cut as a last resort",
    MessageType.REASONING: "old reasoning is cut as a last resort",
}


class TieredCompact(PlannedCompact):
    """Compacts messages older than the `keep_recent` latest iterations by their type:

    1. nudges are dropped, results are truncated to their first `truncate_chars` characters;
    2. results are replaced by a short note, because every call needs a result;
    3. reasoning is dropped, and plain text in place of a call.

    Calls are not changed. A nudge that answers a call is shortened to the statement that the call was refused.
    """

    def __init__(self, keep_recent: int = 2, truncate_chars: int = 200) -> None:
        """Raise `ValueError` if `keep_recent` or `truncate_chars` is less than 1."""
        super().__init__(keep_recent)
        if truncate_chars < 1:
            raise ValueError(f"truncate_chars is {truncate_chars}: a truncated result must keep at least one character")
        self.truncate_chars = truncate_chars

    def plans(self, messages: Sequence[Message], *, step_hint: str = "") -> Iterator[CompactionPlan]:
        """See `PlannedCompact`."""
        tokens = estimate_messages_tokens(messages)
        start = find_recent_start(messages, self.keep_recent)
        nudges: list[Cut] = []
        results: list[tuple[int, Message]] = []
        last_resort: list[Cut] = []
        for index in range(start):
            message = messages[index]
            if message.type in NUDGES:
                nudges += _nudge(index, message)
            elif message.type is MessageType.TOOL_RESULT:
                results.append((index, message))
            elif why := _LAST_RESORT.get(message.type):
                last_resort.append(drop_message(index, message, 3, why))
        truncated = [cut for index, message in results if (cut := self._truncate(index, message))]
        yield make_plan(1, tokens, nudges + truncated)
        replaced: list[Cut] = []
        for index, message in results:
            replaced += _replace(index, message, 2, _REPLACED_WHY, RESULT_DROPPED)
        if step_hint and replaced:
            replaced = [
                *_remove_older_hints(messages[:start]),
                *replaced[:-1],
                _add_hint(messages, replaced[-1], step_hint),
            ]
        yield make_plan(2, tokens, nudges + replaced)
        yield make_plan(3, tokens, nudges + replaced + last_resort)

    def _truncate(self, index: int, message: Message) -> Cut | None:
        text, kept = message.content, self.truncate_chars
        if len(text) <= kept + _MIN_SAVING:
            return None
        if "\ud800" <= text[kept - 1] <= "\udbff":  # do not split a surrogate pair
            kept -= 1
        shorter = f"{text[:kept]}\n[Truncated — {len(text) - kept} chars removed]"
        estimate = message.metadata.token_estimate
        if estimate is not None:  # the estimate includes more than the text
            estimate = max(0, estimate - estimate_text_tokens(len(text) - len(shorter)))
        meta = replace(message.metadata, token_estimate=estimate)
        return replace_message(
            index, message, 1, "truncated", _TRUNCATED_WHY, replace(message, content=shorter, metadata=meta)
        )


def _nudge(index: int, message: Message) -> list[Cut]:
    if is_call_result(message):
        return _replace(index, message, 1, _REFUSAL_WHY, REFUSAL_DROPPED)
    return [drop_message(index, message, 1, _NUDGE_WHY)]


def _replace(index: int, message: Message, phase: int, why: str, words: str) -> list[Cut]:
    """Return the cut that replaces the message by a placeholder, or nothing if that saves nothing."""
    cut = replace_message(index, message, phase, "replaced", why, _placeholder(message, words))
    return [cut] if cut.saved > 0 else []


def _placeholder(message: Message, words: str) -> Message:
    meta = replace(message.metadata, type=MessageType.SUMMARY, original_type=message.type, token_estimate=None)
    return replace(message, content=words, metadata=meta)


def _add_hint(messages: Sequence[Message], cut: Cut, hint: str) -> Cut:
    message = messages[cut.index]
    words = _placeholder(message, f"{RESULT_DROPPED} {hint}")
    return replace_message(cut.index, message, cut.phase, cut.kind, cut.reason, words)


def _remove_older_hints(messages: Sequence[Message]) -> Iterator[Cut]:
    """Yield cuts that remove hints in earlier placeholders; otherwise a long run would accumulate them."""
    for index, message in enumerate(messages):
        is_ours = message.type is MessageType.SUMMARY and message.content.startswith(RESULT_DROPPED)
        if is_ours and message.content != RESULT_DROPPED:
            yield replace_message(index, message, 2, "truncated", _HINT_WHY, replace(message, content=RESULT_DROPPED))
