"""How far something goes that looks like a call and cannot be read: no call begins inside it.

A broken or cut-off call may well hold the text of another one, in a file that it writes for example.
"""

from __future__ import annotations

import re

_TEXT_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|\]<\]|[{}\[\]]|</|<[|｜](?!")|\[/?TOOL_CALLS\]', re.DOTALL)


def past_brackets(text: str, at: int, reach: int | None = None) -> int:
    """The place after an object or a list, however broken: where its brackets are even, or markup stands outside its
    texts; the end, or `reach` characters on, where neither comes.
    """
    depth = 0
    end = len(text) if reach is None else min(len(text), at + reach)
    for found in _TEXT_OR_BRACKET.finditer(text, at, end):
        what = found.group()
        if what.startswith('"'):
            continue
        if what not in "{}[]":
            return found.start()
        depth += 1 if what in "{[" else -1
        if depth == 0:
            return found.end()
    return end
