"""Cuts out of each rendering what the model writes: the text between the prompt and the end of the response."""

from __future__ import annotations

import re
from collections.abc import Mapping

from forge_proxy.core.rescue.grammar.headers import THINK_CLOSE, THINK_OPEN
from forge_proxy.core.rescue.grammar.learned_form import ANY_ID
from forge_proxy.core.rescue.templates.probes import FIRST, RESULT, TEXT

_OPEN_TOKEN = re.compile(r"(?:<[^<>\s]*|\[[A-Z_/ ]*)\Z")
"""A token that is cut at its end."""
_TOKEN_END = re.compile(r"[^<>\s\[\]]*[>\]]")
_TURN_END = re.compile(r"\s*(<[^<>\s]+>|\[/?[A-Z_]+\])")
"""The token that ends a message."""
_IDS = re.compile(r"qzid0000\d")


def cut_segments(renderings: Mapping[str, str]) -> dict[str, str]:
    """Return the responses with calls, without the prompt before them and the end of the message after them.

    `prompt`, `text` and `string` show where those are; all others contain calls.
    """
    text, one = renderings["text"], renderings["string"]
    start = max(
        _shared_start(renderings.get("prompt", ""), one),
        _shared_start(text, one),
    )
    tail = _until_result(text.rpartition(TEXT)[2])
    return {
        name: _IDS.sub(ANY_ID, _without_reasoning(_cut_end(rendering[start:], tail)))
        for name, rendering in renderings.items()
        if name not in ("prompt", "text")
    }


def shared_prefix(first: str, second: str) -> str:
    """Return the text with which both begin, without a token that is cut at its end."""
    shared = _common(first, second)
    cut = _OPEN_TOKEN.search(shared)
    return shared[: cut.start()] if cut else shared


def shared_suffix(first: str, second: str) -> str:
    """Return the text with which both end, without a token that is cut at its start."""
    length = len(_common(first[::-1], second[::-1]))
    suffix = second[len(second) - length :]
    for whole in (first, second):
        if _OPEN_TOKEN.search(whole[: len(whole) - len(suffix)]) and (end := _TOKEN_END.match(suffix)):
            suffix = suffix[end.end() :]
    return suffix


def _common(first: str, second: str) -> str:
    length = min(len(first), len(second))
    differing = (at for at in range(length) if first[at] != second[at])
    return first[: next(differing, length)]


def _shared_start(first: str, second: str) -> int:
    return len(shared_prefix(first, second))


def _until_result(rendering: str) -> str:
    """Return the rendering up to the result of the call, if it contains one."""
    return rendering.partition(RESULT)[0]


def _cut_end(response: str, tail: str) -> str:
    """Return a response without the end of its message, which the plain text has too, and without what follows it."""
    segment = _until_result(response)
    end = _TURN_END.match(tail)
    if end and len(segment) < len(response) and (cut := segment.rfind(end[1])) > segment.rfind(FIRST):
        return segment[:cut]
    return _without_tail(segment, tail)


def _without_tail(segment: str, tail: str) -> str:
    shared = shared_suffix(tail, segment)
    return segment[: len(segment) - len(shared)]


def _without_reasoning(segment: str) -> str:
    """Return the segment without an empty reasoning block at its start."""
    opening = THINK_OPEN.match(segment, len(segment) - len(segment.lstrip()))
    closing = THINK_CLOSE.search(segment, opening.end()) if opening else THINK_CLOSE.match(segment.lstrip())
    if closing is None:
        return segment
    return segment[closing.end() :] if opening else segment.lstrip()[closing.end() :]
