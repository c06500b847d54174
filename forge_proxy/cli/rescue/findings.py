"""What a text holds by the daemon's own functions: the calls with how they were written, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from forge_proxy.cli.rescue.text_spans import TextSpan, place_of
from forge_proxy.cli.rescue.why_not import NotACall, left_out
from forge_proxy.core.guardrails import Outcome, Turn, Verdict, judge
from forge_proxy.core.guardrails.check import CheckedCall, check
from forge_proxy.core.guardrails.extraction import Extraction, read
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.rescue import RecoveredCall, mend_object, rescue
from forge_proxy.core.stream import Reply


@dataclass(frozen=True, slots=True)
class FoundCall:
    """A call as it was read, how it was written, and what the check says of it."""

    call: ToolCall
    checked: CheckedCall | Problem
    found: RecoveredCall | None = None
    place: TextSpan | None = None
    """Where it stands in the text, where that can be told."""
    in_thoughts: bool = False

    @property
    def tool(self) -> str:
        """The name of the tool that is meant, or as it was said for none that is offered."""
        return self.call.tool if isinstance(self.checked, Problem) else self.checked[0].tool

    @property
    def typed(self) -> tuple[str, ...]:
        """The arguments that were written as raw text, whose types the schema gave."""
        args = self.call.args() or {}
        return tuple(name for name in args if self.found and name in self.found.untyped)

    @property
    def by_position(self) -> tuple[str, ...]:
        """The arguments that were given without a name; they come first."""
        return tuple(self.call.args() or ())[: self.found.positional if self.found else 0]


@dataclass(frozen=True, slots=True)
class Findings:
    """All that is to be said of a text."""

    turn: Turn
    text: str
    reading: Extraction
    thorough: bool
    """Whether it took the reading that the daemon does away from its event loop."""
    calls: tuple[FoundCall, ...]
    left_out: tuple[NotACall, ...]
    """What looks like a call and was not taken for one."""
    verdict: Verdict

    @property
    def good(self) -> bool:
        """Whether every call that was begun can be read and is valid."""
        return not self.reading.broken and not any(isinstance(call.checked, Problem) for call in self.calls)


def find(turn: Turn, text: str, finish: str) -> Findings:
    """Look at a text as at the answer to `turn`, thoroughly where the daemon would."""
    reply = Reply(text=text, finish=finish)
    reading = read(turn, reply)
    thorough = reading.unread
    if thorough:
        reading = read(turn, reply, thorough=True)
    calls = tuple(_found_calls(turn, text, reading, thorough=thorough))
    missed = () if calls else left_out(turn, reply, reading)
    return Findings(turn, text, reading, thorough, calls, missed, judge(turn, reply, "", reading))


def _found_calls(turn: Turn, text: str, reading: Extraction, *, thorough: bool) -> list[FoundCall]:
    """The calls of a reading, each with the place it was read from."""
    mend = mend_object if thorough else None
    in_text = rescue(text, turn.callable_names, template_thinks=turn.text_waits, mend=mend).calls
    in_thoughts = () if in_text else rescue(reading.thought, turn.callable_names).calls
    left = [*in_text, *in_thoughts]
    said = [mark.detail for mark in reading.marks if mark.kind is Outcome.RESCUED]
    calls: list[FoundCall] = []
    for call, detail in zip(reading.rescued, said, strict=True):
        found = next((one for one in left if detail == f"{one.form} at {one.start}"), None)
        if found:
            left.remove(found)
        place = place_of(text, found.start, found.end) if found and in_text else None
        if found and not in_text:
            place = _place_of_thought(text, reading.thought[found.start : found.end])
        calls.append(FoundCall(call, check(turn, call), found, place, bool(in_thoughts)))
    return calls


def _place_of_thought(text: str, written: str) -> TextSpan | None:
    """Where a part of the thoughts stands in the text: they are put together of several places."""
    start = text.find(written)
    once = start >= 0 and text.find(written, start + 1) < 0
    return place_of(text, start, start + len(written)) if once else None
