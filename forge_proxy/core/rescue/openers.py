"""Where in a text a call may begin, and how much of the end of an unfinished text may be the beginning of such a place.

`rescue` cuts calls out of a whole text at what `Openers.find` gives; `Scan` holds back from what `find` or `held_from`
gives. Both live here, so that nothing leaves that could later be read as part of a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

MARKERS = ("<tool_call>", "<function=", "[TOOL_CALLS]")
"""Texts that begin a call wherever they stand. `forms.py` says how each goes on."""

# Keys may come in any order; an object that begins with none of these is not taken for a call.
_KEYS = "name|tool|tool_name|function|function_name|type|id|arguments|args|parameters|input|tool_calls"
_FENCE = r"```[A-Za-z_]{0,12}[ \t]{0,4}\n\s{0,8}"
_LINE_START = r"(?:(?<=\n)|(?<![\s\S]))[ \t]{0,8}"
_OBJECT = rf'\{{\s{{0,8}}"(?:{_KEYS})"\s{{0,8}}:'
_JSON = rf"(?:\[\s{{0,8}})?{_OBJECT}"
_ENDS = re.compile("|".join((*map(re.escape, (*MARKERS, "[ARGS]")), _OBJECT)))
"""How every opener ends. Each way begins with a letter of its own, so a long text is searched fast."""
_LEAD = 40
"""How far before its end, names aside, an opener may begin: a fence, a bracket and the white space around them."""

# The same with each atom optional from some point on, to the end of the text.
_JSON_BEGUN = r'(?:\[\s{0,8}\Z|(?:\[\s{0,8})?\{\s{0,8}(?:"[a-z_]{0,13}(?:"\s{0,8})?)?\Z)'
_FENCE_BEGUN = rf"(?:`{{1,2}}\Z|```[A-Za-z_]{{0,12}}[ \t]{{0,4}}(?:\Z|\n\s{{0,8}}(?:\Z|{_JSON_BEGUN})))"
_BEGUN = re.compile(rf"{_FENCE_BEGUN}|{_LINE_START}{_JSON_BEGUN}")
_FENCE_LAST = re.compile(rf"{_FENCE}\Z")
_REACH = 128
"""How far before the end an unfinished fence or object can begin: the sum of the bounds above, and some."""


class Openers:
    """The places where a call may begin, for one set of offered names."""

    def __init__(self, names: Iterable[str]) -> None:
        offered = sorted(names, key=len, reverse=True)
        literals = (*MARKERS, *(f"{name}[ARGS]" for name in offered))
        self._names = tuple(offered)
        self._heads = frozenset(text[:length] for text in literals for length in range(1, len(text)))
        self._longest = max(map(len, literals)) - 1
        self._first = frozenset(text[0] for text in literals)
        markers = "|".join(map(re.escape, MARKERS))
        rehearsal = "|".join(map(re.escape, offered)) or r"(?!)"  # without names: what matches nowhere
        self._pattern = re.compile(
            rf"(?P<fence>{_FENCE})?(?:(?P<marker>{markers})|(?<![\w.:/-])(?P<rehearsal>{rehearsal})(?=\[ARGS\]))"
            rf"|(?:(?P<json_fence>{_FENCE})|{_LINE_START})(?P<json>{_JSON})"
        )

    def find(self, text: str, start: int = 0) -> re.Match[str] | None:
        """The first opener from `start` on. Groups: `marker`, `rehearsal` or `json`, `fence` or `json_fence` before."""
        for end in _ENDS.finditer(text, start):
            begins = max(start, end.start() - _LEAD - self._longest)
            if self._may_end_here(text, end) and (opener := self._pattern.search(text, begins, end.end())):
                return opener
        return None

    def _may_end_here(self, text: str, end: re.Match[str]) -> bool:
        """Whether it is worth to look for the beginning: a name stands before, or the line has just begun."""
        at = end.start()
        if end.group() == "[ARGS]":
            return text.endswith(self._names, 0, at)
        line = text[max(0, at - _LEAD) : at].rpartition("\n")[2]
        return text[at] != "{" or line.strip() in ("", "[")

    def held_from(self, text: str, start: int = 0) -> int:
        """From where, `start` at the earliest, the end of `text` may begin an opener; its length when nothing does.

        White space at the end counts as such a beginning: it goes with the call that follows it.
        """
        end = len(text)
        low = max(start, end - _REACH)
        if text.find("`", low) >= 0 or text.find("{", low) >= 0 or text.find("[", low) >= 0:
            begun = _BEGUN.search(text, low)
            if begun:
                end = begun.start()
        for at in range(max(start, len(text) - self._longest), end):
            if text[at] in self._first and text[at:] in self._heads:
                end = at
                fence = _FENCE_LAST.search(text, max(start, at - _REACH), at)
                if fence:
                    end = fence.start()
                break
        return len(text[:end].rstrip())


@lru_cache(maxsize=256)
def openers(names: tuple[str, ...]) -> Openers:
    """The openers for these names; kept, since an agent offers the same tools with every request."""
    return Openers(names)
