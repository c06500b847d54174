"""Whether a text that is still being written has begun to repeat itself: the same characters, word for word, in a row.

`StreamGate` has a watch for the text and one for the reasoning of each answer. Numbers that count up, similar lines and
refrains with something between them are no loops: only a verbatim period is one, however long the text before it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

_SPANS = ((2_048, 16), (8_192, 512), (16_384, 2_048))
"""Characters that must be one loop, and the longest period that is looked for in them: at least 128 times the same for
what is short, 16 for a few sentences, 8 for a page.

Chosen so that what people ask for goes through (a sentence a hundred times, rulers, tables of zeros), and because being
late costs little: the loops that are reported run for 30,000 to 80,000 characters. What was measured stands in
`docs/decisions/0011-loops.md`.
"""
_LOOKS = 4
"""How often a span is looked at while it is written: a loop is seen at the latest when it is 5/4 of its span long."""
_STEP = min(span for span, _ in _SPANS) // _LOOKS
_KEPT = max(span for span, _ in _SPANS) * (_LOOKS + 1) // _LOOKS
_SHOWN = 2
"""Repetitions that are left of a loop where it can still be shortened: the fewest that show it."""

Part: TypeAlias = Literal["text", "reasoning"]


@dataclass(frozen=True, slots=True)
class Loop:
    """A part of an answer repeats `period` characters from `start` on; at `end` that was certain. All in characters."""

    part: Part
    period: int
    start: int
    end: int

    @property
    def shown_to(self) -> int:
        """Where the text may end so that its loop is seen and no more."""
        return self.start + _SHOWN * self.period

    def __str__(self) -> str:
        return f"loop in {self.part}: {self.period} characters again and again from {self.start} to {self.end}"


class LoopWatch:
    """Fed piece by piece, finds the first loop: the same one however the text is cut.

    Each character costs a bounded time (some nanoseconds), and no more than `_KEPT` characters are kept.
    """

    def __init__(self, part: Part) -> None:
        self._part: Part = part
        self.loop: Loop | None = None
        self._tail = ""
        """The text up to the last look, as far back as a look needs."""
        self._pieces: list[str] = []
        self._length = 0
        self._next = _STEP

    def take(self, piece: str) -> str:
        """What of this piece belongs to the text up to where a loop is certain: all of it while there is none."""
        if self.loop:
            return ""
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length < self._next:
            return piece
        self._look()
        return piece[: len(piece) - (self._length - self.loop.end)] if self.loop else piece

    def _look(self) -> None:
        text = self._tail + "".join(self._pieces)
        before = self._length - len(text)
        while self.loop is None and self._next <= self._length:
            self.loop = self._loop_at(text, before, self._next)
            self._next += _STEP
        self._pieces = []
        self._tail = "" if self.loop else text[-_KEPT:]

    def _loop_at(self, text: str, before: int, end: int) -> Loop | None:
        """The loop that ends at this place; `before` is how many characters of the whole stand before `text`."""
        for span, longest in _SPANS:
            step = span // _LOOKS
            if end % step or end < span:
                continue
            start = end - span - before
            if period := _period_of(text[start : end - before], longest):
                earliest = max(0, start - step)  # the look before this one saw no loop
                while start > earliest and text[start - 1] == text[start - 1 + period]:
                    start -= 1
                return Loop(self._part, period, start + before, end)
        return None


def _period_of(text: str, longest: int) -> int:
    """The shortest period of the text, at most `longest`; 0 for none.

    Where the first `longest` characters come again first is the shortest period or none is: two periods of a text that
    is as long as both together are multiples of one (the theorem of Fine and Wilf).
    """
    period = text.find(text[:longest], 1, 2 * longest)
    return period if period > 0 and text.startswith(text[period:]) else 0
