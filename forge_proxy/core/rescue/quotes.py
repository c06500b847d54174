"""Where code stands in a text: blocks between fences and spans between backticks. What is written there is shown, not
called.
"""

from __future__ import annotations

import re

# The first backtick stands for itself, which makes the search fast; it follows no other one.
_OPENING = re.compile(r"`(?<!``)(?:(?P<fence>`{2,15}+)[^`\n]{0,80}(?=\n|\Z)|(?P<ticks>`{0,15}+)[^`\n]+`(?P=ticks))")
_CLOSING = re.compile(r"(`{3,}+)[ \t]*(?=\n|\Z)")


class Quotes:
    """The code in one text, asked from front to back."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end: int | None = None
        """Where the code ends that `_opening` begins, once it was asked."""
        self._opening = _OPENING.search(text)

    def around(self, at: int) -> tuple[int, int] | None:
        """From where to where the code goes that the place stands in; None if it stands in none, or begins it."""
        while self._opening and self._opening.start() < at:
            end = self._code_end(self._opening)
            if end > at:
                return self._opening.start(), end
            self._look_from(end)
        return None

    def pass_over(self, start: int, end: int) -> None:
        """Leave out a call that was read there: backticks in its arguments are none of the text."""
        if self._opening is None or self._opening.start() >= end:
            return
        if self._opening.start() > start or self._code_end(self._opening) <= end:
            self._look_from(end)

    def _look_from(self, at: int) -> None:
        self._opening = _OPENING.search(self._text, at)
        self._end = None

    def _code_end(self, opening: re.Match[str]) -> int:
        if self._end is None:
            self._end = opening.end() if opening["fence"] is None else self._block_end(opening)
        return self._end

    def _block_end(self, opening: re.Match[str]) -> int:
        """After the next fence that is as long and ends its line; an open block takes all that follows."""
        closings = _CLOSING.finditer(self._text, opening.end())
        length = 1 + len(opening["fence"])
        return next((found.end() for found in closings if len(found[1]) >= length), len(self._text))
