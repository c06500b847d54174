"""Reads values that are written as child tags: `<item>a</item><item>b</item>`. Their meaning depends on the schema.

Supports tags without attributes only. The special token that MiniMax writes before each tag is part of the tag.
"""

from __future__ import annotations

import re

_TAG = re.compile(r"(?:\]<\]minimax\[>\[)?<(/?)([^\s<>/=\[\]]{1,128})\s{0,8}>")


def read_children(text: str) -> list[tuple[str, str]] | None:
    """Return the name and raw content of each tag; None if `text` contains anything but tags and white space.

    Other tags inside a content are text, balanced or not: `<code>Vec<String></code>` has one child.
    """
    children: list[tuple[str, str]] = []
    at, name, start, depth = 0, "", 0, 0
    for tag in _TAG.finditer(text):
        closes = bool(tag[1])
        if depth == 0:
            if closes or text[at : tag.start()].strip():
                return None
            name, start, depth = tag[2], tag.end(), 1
        elif tag[2] == name:
            depth += -1 if closes else 1
            if depth == 0:
                children.append((name, text[start : tag.start()]))
                at = tag.end()
    return children if children and depth == 0 and not text[at:].strip() else None
