"""How far something goes that looks like a call and cannot be read: no call begins inside it.

A broken or cut-off call may well hold the text of another one, in a file that it writes for example.
"""

from __future__ import annotations

import re

from forge_proxy.core.rescue.openers import MARKERS

_TEXT_OR_BRACKET = re.compile(
    rf'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[{{}}\[\]]|{"|".join(map(re.escape, MARKERS))}', re.DOTALL
)
_BEFORE_JSON = re.compile(
    r"\s{0,8}(?:[^\s\[\]{}<>]{1,128}(?:\[CALL_ID\][^\s\[\]{}]{1,64})?)?(?:\[ARGS\])?\s{0,8}(?=\{|\[(?!TOOL_CALLS))"
)
_FUNCTION = re.compile(r"\s{0,8}[^\s<>=]{1,128}\s{0,8}>")
_FUNCTION_END = "</function>"


def past_unread(text: str, opener: re.Match[str]) -> int:
    """The place from which to look on after an opener whose call cannot be read."""
    at = opener.end()
    if opener["json"] is not None:
        return max(at, _past_brackets(text, opener.start("json")))
    body = _BEFORE_JSON.match(text, at)
    if body:
        return _past_brackets(text, body.end())
    if opener["marker"] == "<function=" and _FUNCTION.match(text, at):
        end = text.find(_FUNCTION_END, at)
        return len(text) if end < 0 else end + len(_FUNCTION_END)
    return at


def _past_brackets(text: str, at: int) -> int:
    """The place after an object or a list, however broken: where its brackets are even, or a marker stands outside
    its texts; the end where neither comes.
    """
    depth = 0
    for found in _TEXT_OR_BRACKET.finditer(text, at):
        what = found.group()
        if what.startswith('"'):
            continue
        if what not in "{}[]":
            return found.start()
        depth += 1 if what in "{[" else -1
        if depth == 0:
            return found.end()
    return len(text)
