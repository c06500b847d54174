"""Decides for each model which heuristics are on, learned from whether their corrections led to anything.

The engine calls `select_heuristics` before the first attempt of a request and `record_answer` at its end. A correction
counts as effective once the client sends the result of its call and the result is not an error; a corrected final
answer counts at once. If the model then returns to the text that was retried, the work was wasted and the correction
was not effective after all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from cachetools import FIFOCache

from forge_proxy.core.errors import UnknownModel
from forge_proxy.core.guardrails.answer_grounding import read_answer
from forge_proxy.core.guardrails.conversation import find_user_message
from forge_proxy.core.guardrails.correction_log import Correction, CorrectionLog, read_words
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.guardrails.heuristic_record import HeuristicRecord
from forge_proxy.core.guardrails.heuristics import ActiveHeuristics, Heuristic, read_settings
from forge_proxy.core.guardrails.policy import GuardPolicy
from forge_proxy.core.guardrails.repeated_calls import is_repeated
from forge_proxy.core.guardrails.tool_results import is_usable
from forge_proxy.core.guardrails.turn import Fault, Turn
from forge_proxy.core.guardrails.verdict import FinalAnswer
from forge_proxy.core.jsontypes import JsonObject

_CACHE_SIZE = 256
"""Maximum number of models; a server without a model list accepts any name that a client sends."""
_NO_CASES = HeuristicRecord()
_MAX_EARLY_ENDS = 3
"""Final answers that are retried after one message of the user, if each retry was effective."""
_CORRECTED = {
    Fault.TEXT_ONLY: Heuristic.TEXT_RESPONSES,
    Fault.REPEATED_CALL: Heuristic.REPEATS,
    Fault.EARLY_END: Heuristic.EARLY_END,
    Fault.UNGROUNDED_ANSWER: Heuristic.ANSWER_GROUNDING,
}


class LearnedPolicy:
    """The statistics of each model since the daemon started. Requests without a model's name share one entry."""

    def __init__(self) -> None:
        self.is_enabled = True
        """Whether the statistics decide. Otherwise, in evals, all cases of heuristics that are `auto` are corrected."""
        self._records: FIFOCache[str, Mapping[Heuristic, HeuristicRecord]] = FIFOCache(_CACHE_SIZE)
        self._opens_reasoning: FIFOCache[str, bool] = FIFOCache(_CACHE_SIZE)
        self._log = CorrectionLog()

    @property
    def records(self) -> Mapping[str, Mapping[Heuristic, HeuristicRecord]]:
        """Statistics by the model's name, of the heuristics that ever applied to it."""
        return self._records

    def record_of(self, model: str | None, heuristic: Heuristic) -> HeuristicRecord:
        """Return the statistics of a heuristic on a model."""
        return self._records.get(model or "", {}).get(heuristic, HeuristicRecord())

    def select_heuristics(
        self, policy: GuardPolicy, model: str | None, messages: Sequence[JsonObject] = ()
    ) -> ActiveHeuristics:
        """Return the heuristics that apply to the response to these messages.

        Records the results in the messages first, because the choice depends on them as well.
        """
        excluded = self._record_results(model or "", messages)
        settings = read_settings(policy)
        counted = [each for each, setting in settings.items() if setting != "accept" and each not in excluded]
        records = self._records.get(model or "", {})
        corrected = [
            each
            for each in counted
            if settings[each] == "retry" or not self.is_enabled or records.get(each, _NO_CASES).should_correct()
        ]
        return ActiveHeuristics(frozenset(counted), frozenset(corrected))

    def effective_setting(
        self, policy: GuardPolicy, model: str | None, heuristic: Heuristic
    ) -> Literal["retry", "accept"]:
        """Return how cases of a heuristic are handled, apart from the few that are still corrected."""
        setting = read_settings(policy)[heuristic]
        if setting == "auto":
            return "accept" if self.record_of(model, heuristic).is_off else "retry"
        return setting

    def record_answer(self, model: str | None, turn: Turn, answer: FinalAnswer) -> None:
        """Record how a request ended."""
        if answer.is_before_failed_retry:  # which does not characterise the model
            return
        model = model or ""
        if text := turn.first_text or (answer.text if answer.is_plain_text else None):
            self._record_wasted_work(model, turn.messages, text)
        corrected = [heuristic for fault, heuristic in _CORRECTED.items() if fault in turn.faults]
        awaited: list[Heuristic] = []
        for heuristic in corrected:
            outcome = assess_correction(heuristic, turn, answer)
            self._update(model, heuristic, self.record_of(model, heuristic).with_correction(outcome == "effective"))
            if outcome == "awaits_result":
                awaited.append(heuristic)
        accepted = (*answer.accepted_cases, *([Heuristic.TEXT_RESPONSES] if answer.is_plain_text else []))
        for heuristic in accepted:
            if heuristic not in corrected:
                self._update(model, heuristic, self.record_of(model, heuristic).with_accepted())
        if awaited:
            words = read_words(turn.first_text or "")
            self._log.add(model, Correction(tuple(awaited), answer.calls[0].id, len(turn.messages), words))

    def opens_reasoning(self, model: str | None) -> bool:
        """Return whether this model's text may start inside a reasoning block that its chat template opens."""
        return self._opens_reasoning.get(model or "", False)

    def record_extractions(self, model: str | None, extractions: Sequence[Extraction]) -> None:
        """Record whether the replies of one attempt closed a reasoning block that they had not opened."""
        closed = [extraction.closes_reasoning for extraction in extractions if extraction.closes_reasoning is not None]
        if closed and any(closed) != self.opens_reasoning(model):
            self._opens_reasoning[model or ""] = any(closed)

    def forget(self, model: str | None = None, heuristics: Sequence[Heuristic] = tuple(Heuristic)) -> None:
        """Reset the statistics of these heuristics, for this model or for all. Raises `UnknownModel`."""
        known = [name for name, records in self._records.items() if any(each in records for each in heuristics)]
        if model is not None and model not in known:
            raise UnknownModel(model, known)
        for name in known if model is None else [model]:
            kept = {each: record for each, record in self._records[name].items() if each not in heuristics}
            if kept:
                self._records[name] = kept
            else:
                del self._records[name]
        self._log.forget(model, heuristics)

    def _update(self, model: str, heuristic: Heuristic, record: HeuristicRecord) -> None:
        self._records[model] = {**self._records.get(model, {}), heuristic: record}

    def _record_results(self, model: str, messages: Sequence[JsonObject]) -> set[Heuristic]:
        """Record the results of corrected calls, and return the heuristics that this conversation rules out.

        Text is not retried again if the last time only wasted work, a final answer only if the last retry led to a
        result, and `_MAX_EARLY_ENDS` times at most.
        """
        excluded: set[Heuristic] = set()
        if not self._log:
            return excluded
        user = find_user_message(messages)
        early_ends = 0
        for correction, result in self._log.find(model, messages, min(user + 1, _find_last_calls(messages))):
            is_effective = correction.is_effective
            if not is_effective and is_usable(result):
                is_effective = True
                self._log.add(model, replace(correction, is_effective=True))
                for heuristic in correction.heuristics:
                    self._update(model, heuristic, self.record_of(model, heuristic).with_result())
            if correction.index <= user:
                continue
            if correction.is_wasted:
                excluded.add(Heuristic.TEXT_RESPONSES)
            if Heuristic.EARLY_END in correction.heuristics:
                early_ends += 1
                if not is_effective or early_ends == _MAX_EARLY_ENDS:
                    excluded.add(Heuristic.EARLY_END)
        return excluded

    def _record_wasted_work(self, model: str, messages: Sequence[JsonObject], text: str) -> None:
        """Record that the model returned to a text whose retry had led to work since the user's last message."""
        if not self._log:
            return
        for correction, _ in list(self._log.find(model, messages, find_user_message(messages) + 1)):
            if Heuristic.TEXT_RESPONSES in correction.heuristics and not correction.is_wasted:
                if not correction.is_about(text):
                    continue
                self._log.add(model, replace(correction, is_wasted=True))
                if correction.is_effective:
                    record = self.record_of(model, Heuristic.TEXT_RESPONSES).with_wasted_work()
                    self._update(model, Heuristic.TEXT_RESPONSES, record)


def assess_correction(
    heuristic: Heuristic, turn: Turn, answer: FinalAnswer
) -> Literal["effective", "awaits_result", "in_vain"]:
    """Return what a correction led to, as far as the answer shows it."""
    ends = all(turn.is_terminal(call.tool) for call in answer.calls)
    match heuristic:
        case Heuristic.TEXT_RESPONSES:
            if not answer.calls:
                return "in_vain"
            return "effective" if ends else "awaits_result"
        case Heuristic.REPEATS:
            if not answer.calls:
                return "effective" if answer.text else "in_vain"
            if all(is_repeated(call, turn.messages, turn.known_names) for call in answer.calls):
                return "in_vain"
            return "effective" if ends else "awaits_result"
        case Heuristic.EARLY_END:
            return "in_vain" if ends else "awaits_result"
        case Heuristic.ANSWER_GROUNDING:
            if not ends:
                return "awaits_result"
            text = read_answer(answer.calls) if answer.calls else answer.text or ""
            return "effective" if turn.find_ungrounded(text) is None else "in_vain"


def _find_last_calls(messages: Sequence[JsonObject]) -> int:
    """Return the index of the last message with calls, the number of messages if there is none."""
    indexes = range(len(messages) - 1, -1, -1)
    return next((index for index in indexes if messages[index].get("tool_calls")), len(messages))
