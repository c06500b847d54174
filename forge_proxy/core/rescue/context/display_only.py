"""Detects markup that is only displayed: in quotes, in HTML, in a table, in JSON data or in a multi-line string.

`code_spans.py` covers backticks and fences. Further text never turns displayed markup into a call.
"""

from __future__ import annotations

import re

from forge_proxy.core.jsontypes import read_value

_REACH = 100
"""Characters before and after a call that are searched for its enclosure; an HTML tag with attributes fits."""
_PARTNERS = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "<!--": "-->"}
_BEFORE = re.compile(
    r"(?:[\"'“‘«]|<!--\s{0,8}|<(?P<tag>pre|code|samp|kbd|xmp|blockquote|td|th|li|dd)(?:\s[^<>]{0,80})?>\s{0,8})\Z"
)
_SET_APART = re.compile(r"(?:\S[^\n]*\n[ \t]*\n(?: {4}|\t)[ \t]*|(?:^|\n)[ \t]{0,3}> ?)\Z")
_DATA = re.compile(r"\{\s{0,20}\"|[=(,:\[]\s{0,8}(?P<quotes>\"\"\"|\'\'\')")
_MAX_TRIES = 64
"""Maximum positions tried as the start of data; the limit keeps the run time linear."""


def is_displayed(text: str, start: int, end: int) -> bool:
    """Whether the call from `start` to `end` is only displayed."""
    return _is_enclosed(text, start, end) or _is_in_table(text, start, end)


def may_be_displayed(text: str, start: int) -> bool:
    """Whether a call at `start` is display only if a matching closer follows it."""
    line = text[text.rfind("\n", max(0, start - _REACH), start) + 1 : start]
    return line.lstrip().startswith("|") or _BEFORE.search(text, max(0, start - _REACH), start) is not None


def _is_enclosed(text: str, start: int, end: int) -> bool:
    before = _BEFORE.search(text, max(0, start - _REACH), start)
    if not before:
        return False
    partner = f"</{before['tag']}" if before["tag"] else _PARTNERS[before.group().rstrip()]
    after = text[end : end + _REACH]
    return after.startswith(partner) or (len(partner) > 1 and after.lstrip().startswith(partner))


def _is_in_table(text: str, start: int, end: int) -> bool:
    before = text[text.rfind("\n", max(0, start - _REACH), start) + 1 : start].lstrip()
    return before.startswith("|") and "|" in text[end : end + _REACH].partition("\n")[0]


def is_indented_or_quoted(text: str, start: int) -> bool:
    """Whether the position is in a Markdown indented code block (a blank line and four spaces after other text) or in
    a block quote (`> `).
    """
    before = text[max(0, start - _REACH) : start]
    return before.endswith((" ", "\t", ">")) and _SET_APART.search(before) is not None


class DisplayOnlySpans:
    """Strict JSON and multi-line strings in one text, queried from start to end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tries = _MAX_TRIES
        self._from = 0
        self.end = 0
        """End of the data found last."""

    def contains(self, position: int, low: int) -> bool:
        """Whether the position is inside data that starts before it, at `low` or later."""
        while position >= self.end and self._tries:
            opening = _DATA.search(self._text, max(low, self._from), position)
            if not opening:
                return False
            self._tries -= 1
            self._from = opening.start() + 1
            self.end = self._end_of(opening)
        return position < self.end

    def _end_of(self, opening: re.Match[str]) -> int:
        """Return the position after the data; 0 if it has no end."""
        if quotes := opening["quotes"]:
            return self._text.find(quotes, opening.end()) + 1
        value = read_value(self._text, opening.start())
        return value[1] if value else 0
