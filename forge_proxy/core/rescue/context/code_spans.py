"""Locates code in a text: fenced blocks and inline spans between backticks. Markup inside code is displayed, not
called.
"""

from __future__ import annotations

import re

# A literal first backtick makes the search fast; the lookbehind excludes a preceding backtick.
_OPENING = re.compile(
    r"`(?<!``)(?:(?P<fence>`{2,15}+)[^`\n]{0,80}(?=\n|\Z)|(?P<ticks>`{0,15}+)[^`\n]+`(?P=ticks)(?!`))"
)
_OPENING_SURE = re.compile(_OPENING.pattern.replace(r"|\Z", "").replace("(?!`)", "(?=[^`])"))
"""The same for an incomplete text: a fence whose line has not ended may become a span."""
_TILDES = r"|^[ ]{0,3}(?P<tildes>~{3,}+)[^\n]{0,80}+(?=\n)"
_WITH_TILDES = {
    pattern: re.compile(pattern.pattern + _TILDES, re.MULTILINE).search for pattern in (_OPENING, _OPENING_SURE)
}
"""For the rare texts with a fence of tildes: this search is slow."""
_CLOSING = {"`": re.compile(r"(`{3,}+)[ \t]*(?=\n|\Z)"), "~": re.compile(r"(~{3,}+)[ \t]*(?=\n|\Z)")}


class CodeSpans:
    """The code in one text, queried from start to end. `open_fence` is the fence that is open at the start of the
    text, `""` for none; `ended` is whether the text is complete.
    """

    def __init__(self, text: str, open_fence: str = "", *, ended: bool = True) -> None:
        self._text = text
        pattern = _OPENING if ended else _OPENING_SURE
        self._search = _WITH_TILDES[pattern] if "~~~" in text else pattern.search
        self._open_fence = open_fence
        start = self._block_end(0, open_fence) if open_fence else 0
        self._first_end = self._past = start
        self._end: int | None = None
        """End of the code that starts with `_opening`; None until computed."""
        self._opening = self._search(text, start)

    def find_span(self, at: int) -> tuple[int, int] | None:
        """Return the start and end of the code around a position; None if it is outside code or is the start of it."""
        if self._open_fence and at < self._first_end:
            return 0, self._first_end
        while self._opening and self._opening.start() < at:
            end = self._code_end(self._opening)
            if end > at:
                return self._opening.start(), end
            self._search_from(end)
        return None

    def find_open_fence(self, at: int) -> str:
        """Return the fence that is open at this position, `""` for none."""
        code = self.find_span(at)
        if code is None:
            return ""
        if self._open_fence and code[0] == 0 and at < self._first_end:
            return self._open_fence
        return _fence_of(self._opening) if self._opening else ""

    def has_open_backtick(self, at: int) -> bool:
        """Whether an unclosed backtick precedes the position on its line."""
        if self.find_span(at):
            return False
        line = max(self._text.rfind("\n", 0, at) + 1, self._past)
        return "`" in self._text[line:at]

    def find_line_limit(self, length: int) -> int:
        """Return the first position at which a backtick `length` characters back, on the same line, is still unclosed.

        Only the text before the position decides it. A position after the end of the text is a lower bound: a later
        backtick may close the one before it.
        """
        at = self._first_end
        while self._opening:
            end = self._code_end(self._opening)
            # A span that is longer than that was unclosed too, so its own backtick is examined.
            tick = self._find_unclosed(at, self._opening.start() + 1, length)
            if tick is not None and tick + length <= end:
                return tick + length
            self._search_from(end)
            at = end
        tick = self._find_unclosed(at, len(self._text), length)
        return (len(self._text) if tick is None else tick) + length

    def _find_unclosed(self, start: int, stop: int, length: int) -> int | None:
        """Return the first backtick from `start` to `stop` whose line does not end within `length` characters."""
        while (tick := self._text.find("`", start, stop)) >= 0:
            line_end = self._text.find("\n", tick, tick + length)
            if line_end < 0:
                return tick
            start = line_end + 1
        return None

    def exclude(self, start: int, end: int) -> None:
        """Exclude a parsed call: backticks in its arguments do not delimit code in the text."""
        if self._opening is None or self._opening.start() >= end:
            return
        if self._opening.start() > start or self._code_end(self._opening) <= end:
            self._search_from(end)

    def _search_from(self, at: int) -> None:
        self._past = at
        self._opening = self._search(self._text, at)
        self._end = None

    def _code_end(self, opening: re.Match[str]) -> int:
        if self._end is None:
            fence = _fence_of(opening)
            self._end = self._block_end(opening.end(), fence) if fence else opening.end()
        return self._end

    def _block_end(self, at: int, fence: str) -> int:
        """Return the end of the next fence of at least this length that ends its line, or of the text."""
        closings = _CLOSING[fence[0]].finditer(self._text, at)
        return next((match.end() for match in closings if len(match[1]) >= len(fence)), len(self._text))


def _fence_of(opening: re.Match[str]) -> str:
    """Return the fence that opens a block, `""` for an inline span."""
    if opening.group().startswith("`"):
        return "`" + opening["fence"] if opening["fence"] else ""
    return opening["tildes"]
