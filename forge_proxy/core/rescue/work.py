"""How much work it may be to read a text, from a cheap look at it. Called where the event loop must not be held up."""

from __future__ import annotations

_OPENING = "<[{(`>✿]"
"""Characters with which something may begin that has to be looked at closely."""
_EACH = 10
"""Microseconds for one of them at the very worst; measured on the patterns in `tests/attack/texts.py`."""
_HEADS = ("Action:", "Call:", "TOOL_CALL")
"""Words that announce a call at the beginning of a line."""
_EACH_HEAD = 40
_CHARACTERS = 20
"""Characters of plain text that are read in a microsecond."""


def estimate_work(text: str) -> int:
    """Microseconds that it takes to read the text at most, on an ordinary machine."""
    openings, heads = sum(map(text.count, _OPENING)), sum(map(text.count, _HEADS))
    return len(text) // _CHARACTERS + _EACH * openings + _EACH_HEAD * heads
