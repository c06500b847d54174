"""Loop detection in streamed text: whether it has begun to repeat the same characters verbatim.

`StreamGate` has one watch for the text and one for the reasoning of each response. Only a verbatim period is a loop,
regardless of the text before it; counting numbers, similar lines and refrains with text in between are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

_SPANS = ((2_048, 16), (8_192, 512), (16_384, 2_048))
"""Spans in characters that must repeat, and the longest period searched in each: at least 128 repetitions of a short
period, 16 of a few sentences, 8 of a page.

The limits let legitimate repetition pass (a sentence a hundred times, rulers, tables of zeros). Late detection costs
little, since reported loops run for 30,000 to 80,000 characters. `docs/decisions/0011-loops.md` has the measurements.
"""
_LOOKS = 4
"""Checks per span: a loop is detected at the latest when its length is 5/4 of the span."""
_STEP = min(span for span, _ in _SPANS) // _LOOKS
_KEPT = max(span for span, _ in _SPANS) * (_LOOKS + 1) // _LOOKS
_SHOWN = 2
"""Repetitions kept of a loop that can still be shortened: the fewest that make it visible."""

Part: TypeAlias = Literal["text", "reasoning"]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of `period` characters that begins at `start` and was certain at `end`. All in characters."""

    part: Part
    period: int
    start: int
    end: int

    @property
    def cut_at(self) -> int:
        """The index at which to cut the text so that only `_SHOWN` repetitions remain."""
        return self.start + _SHOWN * self.period

    def __str__(self) -> str:
        return f"loop in {self.part}: {self.period} characters again and again from {self.start} to {self.end}"


class LoopWatch:
    """Finds the first loop in a text fed piece by piece, independently of how the text is split.

    The time per character is bounded (some nanoseconds), and at most `_KEPT` characters are stored.
    """

    def __init__(self, part: Part) -> None:
        self._part: Part = part
        self.loop: Loop | None = None
        self._tail = ""
        """The text before the last check, as far back as a check needs."""
        self._pieces: list[str] = []
        self._length = 0
        self._next = _STEP

    def take(self, piece: str) -> str:
        """Add a piece and return it, or its beginning up to the point where a loop is certain."""
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
        """Return the loop that ends at index `end`; `before` is the number of characters before `text`."""
        for span, longest in _SPANS:
            step = span // _LOOKS
            if end % step or end < span:
                continue
            start = end - span - before
            if period := _period_of(text[start : end - before], longest):
                earliest = max(0, start - step)  # the previous check found no loop
                while start > earliest and text[start - 1] == text[start - 1 + period]:
                    start -= 1
                return Loop(self._part, period, start + before, end)
        return None


def _period_of(text: str, longest: int) -> int:
    """Return the shortest period of the text, at most `longest`; 0 for none.

    Only the first recurrence of the first `longest` characters needs a check: two periods of a text at least as long as
    their sum are multiples of a common period (theorem of Fine and Wilf).
    """
    period = text.find(text[:longest], 1, 2 * longest)
    return period if period > 0 and text.startswith(text[period:]) else 0
