"""Cheap upper estimate of the time to parse a text, for callers that must not block the event loop."""

from __future__ import annotations

_OPENING = "<[{(`>✿]"
"""Characters that may start markup and therefore need a closer match."""
_EACH = 10
"""Worst-case microseconds for one of them, measured on the patterns in `tests/attack/texts.py`."""
_HEADS = ("Action:", "Call:", "TOOL_CALL")
"""Words that announce a call at the start of a line."""
_EACH_HEAD = 40
_CHARACTERS = 20
"""Characters of plain text parsed per microsecond."""


def estimate_work(text: str) -> int:
    """Return the worst-case time to parse the text on an ordinary machine, in microseconds."""
    openings, heads = sum(map(text.count, _OPENING)), sum(map(text.count, _HEADS))
    return len(text) // _CHARACTERS + _EACH * openings + _EACH_HEAD * heads
