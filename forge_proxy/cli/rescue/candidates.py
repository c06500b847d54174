"""Finds text that looks like a call but is not recognized as one, and the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import islice
from typing import Literal, NamedTuple, assert_never

from forge_proxy.cli.rescue.reasons import NAMED, RejectionReasons
from forge_proxy.cli.rescue.text_spans import TextSpan
from forge_proxy.core.guardrails import Turn
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.jsontypes import is_object, read_value
from forge_proxy.core.rescue import RecoveredCall, rescue
from forge_proxy.core.rescue.grammar.markup import INVOKE, OPENER
from forge_proxy.core.stream import Reply

_MAX_REPORTED = 8
"""Maximum number of rejected candidates that are reported."""
_MAX_TRIED = 200
_MAX_CHARS = 20_000
"""Maximum length in characters of a candidate."""
_NAME = re.compile(r"[^\s{}\[\]\"'`,;]{1,128}")


@dataclass(frozen=True, slots=True)
class RejectedCandidate:
    """Something in a text that looks like a call: what it is, and why it is not a call."""

    span: TextSpan
    description: str
    reason: str


def find_rejected(turn: Turn, reply: Reply, extraction: Extraction) -> tuple[RejectedCandidate, ...]:
    """Return what looks like a call in a reply without calls, in order of position."""
    return tuple(_Search(turn, reply, extraction).all())


_Kind = Literal["markup", "bracket", "name"]


class _Candidate(NamedTuple):
    """A position at which the model may have intended a call to begin."""

    start: int
    end: int
    kind: _Kind


def _to_candidate(kind: _Kind, found: re.Match[str]) -> _Candidate:
    return _Candidate(found.start(), found.end(), kind)


class _Search:
    """The search through one text."""

    def __init__(self, turn: Turn, reply: Reply, extraction: Extraction) -> None:
        self._turn = turn
        self._text = reply.text or ""
        self._broken = extraction.broken
        self._reasons = RejectionReasons(turn, reply, extraction)

    def all(self) -> list[RejectedCandidate]:
        """Return all rejected candidates in order, without nested ones; mere names only if there is nothing else."""
        past = 0
        reported: list[RejectedCandidate] = []
        named: list[RejectedCandidate] = []
        for candidate in islice(self._candidates(), _MAX_TRIED):
            one = self._explain(candidate) if candidate.start >= past else None
            if one is None:
                continue
            past = one.span.end
            (named if one.reason == NAMED else reported).append(one)
            if len(reported) == _MAX_REPORTED:
                break
        return reported or ([] if self._broken else named[:_MAX_REPORTED])

    def _candidates(self) -> Iterator[_Candidate]:
        """Yield all markup, brackets and names of tools, in order."""
        names = "|".join(re.escape(name) for name in self._turn.names)
        looks: tuple[tuple[_Kind, re.Pattern[str]], ...] = (
            ("markup", OPENER),
            ("markup", INVOKE),
            ("bracket", re.compile(r"[{\[]")),
            ("name", re.compile(rf"(?<![\w-])(?:{names})(?![\w-])")),
        )
        return merge(*(map(partial(_to_candidate, kind), look.finditer(self._text)) for kind, look in looks))

    def _explain(self, candidate: _Candidate) -> RejectedCandidate | None:
        """Return the rejected candidate at one position, if there is one."""
        at = candidate.start
        block = self._reasons.code_at(at)
        for start in (at,) if block is None else (at, block[0]):
            if piece := self._call_from(start, candidate.end):
                end = start + piece.end
                description = f"a call of {piece.call.tool} ({piece.form})"
                return RejectedCandidate(
                    TextSpan.of(self._text, start, end), description, self._reasons.explain(start, end, piece)
                )
        span, written = TextSpan.of(self._text, at, candidate.end), self._text[at : candidate.end]
        match candidate.kind:
            case "bracket":
                return self._unknown_tool(at)
            case "markup":
                return RejectedCandidate(span, f"the markup {written}", self._reasons.explain_unparsed(candidate.end))
            case "name":
                return RejectedCandidate(span, f"the name {written}", NAMED)
            case _:
                assert_never(candidate.kind)

    def _call_from(self, start: int, least: int) -> RecoveredCall | None:
        """Return the call that is found if the text consists only of what begins at `start`."""
        for end in self._ends(start):
            if end >= least:
                calls = rescue(self._text[start:end], self._turn.callable_names, form=self._turn.form).calls
                # An open call was cut by this end, unless the whole text ends here.
                if calls and calls[0].start == 0 and (not calls[0].open or end >= len(self._text.rstrip())):
                    return calls[0]
        return None

    def _ends(self, start: int) -> list[int]:
        """Return the positions at which a candidate may end: the end of its JSON, its line, its code or the text."""
        text = self._text
        value = read_value(text, start) if text[start] in "{[" else None
        line = text.find("\n", start)
        block = self._reasons.code_at(start)
        last = len(text[start : block[1]].rstrip("`").rstrip()) + start if block else len(text)
        ends = [value[1] if value else last, line if line >= 0 else last, last, block[1] if block else last]
        return [min(end, start + _MAX_CHARS) for end in dict.fromkeys(ends)]

    def _unknown_tool(self, at: int) -> RejectedCandidate | None:
        """Return a JSON object that would be a call if a tool of the name in it were offered."""
        value = read_value(self._text, at)
        if value is None or not is_object(value[0]):
            return None
        source = self._text[at : value[1]]
        texts = [text for text in value[0].values() if isinstance(text, str) and _NAME.fullmatch(text)]
        for name in texts[:4]:
            calls = rescue(source, [*self._turn.callable_names, name]).calls
            if calls and calls[0].call.tool == name:
                offered = ", ".join(self._turn.names)
                why = f"no tool of that name is offered; available: {offered}"
                return RejectedCandidate(
                    TextSpan.of(self._text, at, value[1]), f"a call of {name} ({calls[0].form})", why
                )
        return None
