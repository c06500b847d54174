"""What looks like a call in a text and was not taken for one: where it stands, what it is, and why not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import islice
from typing import Literal, NamedTuple, assert_never

from forge_proxy.cli.rescue.reasons import NAMED, Reasons
from forge_proxy.cli.rescue.text_spans import TextSpan, place_of
from forge_proxy.core.guardrails import Turn
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.jsontypes import is_object, read_value
from forge_proxy.core.rescue import RecoveredCall, rescue
from forge_proxy.core.rescue.grammar.markup import INVOKE, OPENER
from forge_proxy.core.stream import Reply

_MOST = 8
"""What is told of one text: more of it says nothing new."""
_MOST_TRIED = 200
_LONGEST = 20_000
"""Characters that are tried to be read as one call."""
_NAME = re.compile(r"[^\s{}\[\]\"'`,;]{1,128}")


@dataclass(frozen=True, slots=True)
class NotACall:
    """Something in a text that looks like a call: what it is, and why it was not taken for one."""

    place: TextSpan
    what: str
    why: str


def left_out(turn: Turn, reply: Reply, reading: Extraction) -> tuple[NotACall, ...]:
    """What looks like a call in a reply of which none was read, in the order in which it stands there."""
    return tuple(_Search(turn, reply, reading).all())


_Kind = Literal["markup", "bracket", "name"]


class _Suspect(NamedTuple):
    """A place where a call may have been meant to begin."""

    start: int
    end: int
    kind: _Kind


def _suspect(kind: _Kind, found: re.Match[str]) -> _Suspect:
    return _Suspect(found.start(), found.end(), kind)


class _Search:
    """One look through one text."""

    def __init__(self, turn: Turn, reply: Reply, reading: Extraction) -> None:
        self._turn = turn
        self._text = reply.text or ""
        self._broken = reading.broken
        self._reasons = Reasons(turn, reply, reading)

    def all(self) -> list[NotACall]:
        """Everything, in order: nothing inside of something else, and mere names only where there is nothing else."""
        past = 0
        told: list[NotACall] = []
        named: list[NotACall] = []
        for seen in islice(self._suspects(), _MOST_TRIED):
            one = self._at(seen) if seen.start >= past else None
            if one is None:
                continue
            past = one.place.end
            (named if one.why == NAMED else told).append(one)
            if len(told) == _MOST:
                break
        return told or ([] if self._broken else named[:_MOST])

    def _suspects(self) -> Iterator[_Suspect]:
        """All markup, brackets and names of tools, in order."""
        names = "|".join(re.escape(name) for name in self._turn.names)
        looks: tuple[tuple[_Kind, re.Pattern[str]], ...] = (
            ("markup", OPENER),
            ("markup", INVOKE),
            ("bracket", re.compile(r"[{\[]")),
            ("name", re.compile(rf"(?<![\w-])(?:{names})(?![\w-])")),
        )
        return merge(*(map(partial(_suspect, kind), look.finditer(self._text)) for kind, look in looks))

    def _at(self, seen: _Suspect) -> NotACall | None:
        """What is to be said of one place."""
        at = seen.start
        block = self._reasons.code_at(at)
        for start in (at,) if block is None else (at, block[0]):
            if piece := self._call_from(start, seen.end):
                end = start + piece.end
                what = f"a call of {piece.call.tool} ({piece.form})"
                return NotACall(place_of(self._text, start, end), what, self._reasons.why_not(start, end, piece))
        place, said = place_of(self._text, at, seen.end), self._text[at : seen.end]
        match seen.kind:
            case "bracket":
                return self._unknown_tool(at)
            case "markup":
                return NotACall(place, f"the markup {said}", self._reasons.why_unreadable(seen.end))
            case "name":
                return NotACall(place, f"the name {said}", NAMED)
            case _:
                assert_never(seen.kind)

    def _call_from(self, start: int, least: int) -> RecoveredCall | None:
        """The call that is read when the text is nothing but what begins there."""
        for end in self._ends(start):
            if end >= least:
                calls = rescue(self._text[start:end], self._turn.callable_names).calls
                # One that is open was cut there, not written so, unless the whole text ends there.
                if calls and calls[0].start == 0 and (not calls[0].open or end >= len(self._text.rstrip())):
                    return calls[0]
        return None

    def _ends(self, start: int) -> list[int]:
        """Where something may end that begins there: at the end of its JSON, its line, its code, the text."""
        text = self._text
        value = read_value(text, start) if text[start] in "{[" else None
        line = text.find("\n", start)
        block = self._reasons.code_at(start)
        last = len(text[start : block[1]].rstrip("`").rstrip()) + start if block else len(text)
        ends = [value[1] if value else last, line if line >= 0 else last, last, block[1] if block else last]
        return [min(end, start + _LONGEST) for end in dict.fromkeys(ends)]

    def _unknown_tool(self, at: int) -> NotACall | None:
        """A JSON object that would be a call if there were a tool of the name in it."""
        value = read_value(self._text, at)
        if value is None or not is_object(value[0]):
            return None
        written = self._text[at : value[1]]
        texts = [said for said in value[0].values() if isinstance(said, str) and _NAME.fullmatch(said)]
        for name in texts[:4]:
            calls = rescue(written, [*self._turn.callable_names, name]).calls
            if calls and calls[0].call.tool == name:
                offered = ", ".join(self._turn.names)
                why = f"no tool of that name is offered; there is {offered}"
                return NotACall(place_of(self._text, at, value[1]), f"a call of {name} ({calls[0].form})", why)
        return None
