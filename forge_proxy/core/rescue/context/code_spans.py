"""Where code stands in a text: blocks between fences and spans between backticks. What is written there is shown, not
called.
"""

from __future__ import annotations

import re

# The first backtick stands for itself, which makes the search fast; it follows no other one.
_OPENING = re.compile(
    r"`(?<!``)(?:(?P<fence>`{2,15}+)[^`\n]{0,80}(?=\n|\Z)|(?P<ticks>`{0,15}+)[^`\n]+`(?P=ticks)(?!`))"
)
_OPENING_SURE = re.compile(_OPENING.pattern.replace(r"|\Z", "").replace("(?!`)", "(?=[^`])"))
"""The same in a text that goes on: a fence whose line is not over may become a span."""
_TILDES = r"|^[ ]{0,3}(?P<tildes>~{3,})[^\n]{0,80}(?=\n)"
_WITH_TILDES = {
    pattern: re.compile(pattern.pattern + _TILDES, re.MULTILINE).search for pattern in (_OPENING, _OPENING_SURE)
}
"""For texts with a fence of tildes, which are few: this search is slow."""
_CLOSING = {"`": re.compile(r"(`{3,}+)[ \t]*(?=\n|\Z)"), "~": re.compile(r"(~{3,}+)[ \t]*(?=\n|\Z)")}


class CodeSpans:
    """The code in one text, asked from front to back. `inside` is the fence that is open where it begins, if any, and
    `ended` says whether the text is whole.
    """

    def __init__(self, text: str, inside: str = "", *, ended: bool = True) -> None:
        self._text = text
        pattern = _OPENING if ended else _OPENING_SURE
        self._search = _WITH_TILDES[pattern] if "~~~" in text else pattern.search
        self._inside = inside
        start = self._block_end(0, inside) if inside else 0
        self._first_end = self._past = start
        self._end: int | None = None
        """Where the code ends that `_opening` begins, once it was asked."""
        self._opening = self._search(text, start)

    def around(self, at: int) -> tuple[int, int] | None:
        """From where to where the code goes that the place stands in; None if it stands in none, or begins it."""
        if self._inside and at < self._first_end:
            return 0, self._first_end
        while self._opening and self._opening.start() < at:
            end = self._code_end(self._opening)
            if end > at:
                return self._opening.start(), end
            self._look_from(end)
        return None

    def fence_at(self, at: int) -> str:
        """The fence that is open at this place, `""` for none."""
        code = self.around(at)
        if code is None:
            return ""
        if self._inside and code[0] == 0 and at < self._first_end:
            return self._inside
        return _fence_of(self._opening) if self._opening else ""

    def tick_before(self, at: int) -> bool:
        """Whether a backtick stands before the place, on its line, that no other one closes."""
        if self.around(at):
            return False
        line = max(self._text.rfind("\n", 0, at) + 1, self._past)
        return "`" in self._text[line:at]

    def pass_over(self, start: int, end: int) -> None:
        """Leave out a call that was read there: backticks in its arguments are none of the text."""
        if self._opening is None or self._opening.start() >= end:
            return
        if self._opening.start() > start or self._code_end(self._opening) <= end:
            self._look_from(end)

    def _look_from(self, at: int) -> None:
        self._past = at
        self._opening = self._search(self._text, at)
        self._end = None

    def _code_end(self, opening: re.Match[str]) -> int:
        if self._end is None:
            fence = _fence_of(opening)
            self._end = self._block_end(opening.end(), fence) if fence else opening.end()
        return self._end

    def _block_end(self, at: int, fence: str) -> int:
        """After the next fence that is as long and ends its line; an open block takes all that follows."""
        closings = _CLOSING[fence[0]].finditer(self._text, at)
        return next((found.end() for found in closings if len(found[1]) >= len(fence)), len(self._text))


def _fence_of(opening: re.Match[str]) -> str:
    """The fence with which a block begins, `""` for a span."""
    if opening.group().startswith("`"):
        return "`" + opening["fence"] if opening["fence"] else ""
    return opening["tildes"]
