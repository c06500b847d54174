"""Analyzes a text with the daemon's own functions: its calls, how they were written, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from forge_proxy.cli.rescue.candidates import RejectedCandidate, find_rejected
from forge_proxy.cli.rescue.text_spans import TextSpan
from forge_proxy.core.guardrails import Outcome, Turn, Verdict, judge
from forge_proxy.core.guardrails.check import CheckedCall, check
from forge_proxy.core.guardrails.extraction import Extraction, extract
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.rescue import RecoveredCall, repair_object, rescue
from forge_proxy.core.stream import Reply


@dataclass(frozen=True, slots=True)
class FoundCall:
    """A call, how it was written, and the result of its validation."""

    call: ToolCall
    checked: CheckedCall | Problem
    recovered: RecoveredCall | None = None
    span: TextSpan | None = None
    """Its position in the text, if known."""
    is_in_reasoning: bool = False

    @property
    def tool(self) -> str:
        """The name of the intended tool; the name as written if no such tool is offered."""
        return self.call.tool if isinstance(self.checked, Problem) else self.checked[0].tool

    @property
    def typed_arguments(self) -> tuple[str, ...]:
        """The names of arguments that were written as raw text and typed by the schema."""
        args = self.call.args() or {}
        return tuple(name for name in args if self.recovered and name in self.recovered.untyped)

    @property
    def positional_arguments(self) -> tuple[str, ...]:
        """The names of arguments that were passed by position; they come first."""
        return tuple(self.call.args() or ())[: self.recovered.positional if self.recovered else 0]


@dataclass(frozen=True, slots=True)
class Findings:
    """The analysis of a text."""

    turn: Turn
    text: str
    extraction: Extraction
    is_thorough: bool
    """Whether the thorough parser was needed, which the daemon runs in a separate process."""
    calls: tuple[FoundCall, ...]
    rejected: tuple[RejectedCandidate, ...]
    """Text that looks like a call and is not recognized as one; empty if there are calls."""
    verdict: Verdict

    @property
    def is_valid(self) -> bool:
        """Whether every call in the text can be parsed and is valid."""
        return not self.extraction.broken and not any(isinstance(call.checked, Problem) for call in self.calls)


def analyze(turn: Turn, text: str, finish: str) -> Findings:
    """Analyze a text as the response to `turn`, thoroughly if the daemon would."""
    reply = Reply(text=text, finish=finish)
    extraction = extract(turn, reply)
    is_thorough = extraction.may_recover_more
    if is_thorough:
        extraction = extract(turn, reply, thorough=True)
    calls = tuple(_find_calls(turn, text, extraction, is_thorough=is_thorough))
    rejected = () if calls else find_rejected(turn, reply, extraction)
    return Findings(turn, text, extraction, is_thorough, calls, rejected, judge(turn, reply, "", extraction))


def _find_calls(turn: Turn, text: str, extraction: Extraction, *, is_thorough: bool) -> list[FoundCall]:
    """Return the extracted calls, each with its position."""
    repair = repair_object if is_thorough else None
    in_text = rescue(text, turn.callable_names, template_thinks=turn.buffers_text, repair=repair, form=turn.form).calls
    in_reasoning = () if in_text else rescue(extraction.reasoning, turn.callable_names, form=turn.form).calls
    remaining = [*in_text, *in_reasoning]
    details = [mark.detail for mark in extraction.interventions if mark.kind is Outcome.RESCUED]
    calls: list[FoundCall] = []
    for call, detail in zip(extraction.rescued, details, strict=True):
        candidate = next((piece for piece in remaining if detail == f"{piece.form} at {piece.start}"), None)
        if candidate:
            remaining.remove(candidate)
        span = TextSpan.of(text, candidate.start, candidate.end) if candidate and in_text else None
        if candidate and not in_text:
            span = _span_in_reasoning(text, extraction.reasoning[candidate.start : candidate.end])
        calls.append(FoundCall(call, check(turn, call), candidate, span, bool(in_reasoning)))
    return calls


def _span_in_reasoning(text: str, written: str) -> TextSpan | None:
    """Return the position of a part of the reasoning; None if it occurs several times, or not as a whole."""
    start = text.find(written)
    is_unique = start >= 0 and text.find(written, start + 1) < 0
    return TextSpan.of(text, start, start + len(written)) if is_unique else None
