"""Reads values that contain tags themselves.

`NestedTags` finds the closing tag of a value that contains the text of another call, as a file about calls does.
`read_children` reads a value that is written as child tags: `<item>a</item><item>b</item>`.
"""

from __future__ import annotations

import re

from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.grammar.markup import CLOSE, OPEN

_TAG = re.compile(r"(?:\]<\]minimax\[>\[)?<(/?)([^\s<>/=\[\]]{1,128})\s{0,8}>")
"""A tag without attributes, with the special token that MiniMax writes before each tag."""


class NestedTags:
    """Patterns of the tags around values (`value`) inside the tags around calls (`call`)."""

    def __init__(self, value: str, call: str) -> None:
        self._value = re.compile(rf"{OPEN}{value}[^<>\n]{{0,160}}>")
        self._call = re.compile(rf"{OPEN}{call}[^<>\n]{{0,160}}>")
        self._any = re.compile(
            rf"(?P<opens>{self._value.pattern})|(?P<closes>{CLOSE}{value}\s*>)"
            rf"|(?P<call>{self._call.pattern})|(?P<over>{CLOSE}{call}\s*>)"
        )

    def contains_value(self, text: str, start: int, end: int) -> bool:
        """Whether another value starts inside the span of a candidate value."""
        return self._value.search(text, start, end) is not None

    def contains_call(self, text: str, start: int, end: int) -> bool:
        """Whether another call starts inside the span of a candidate value."""
        return self._call.search(text, start, end) is not None

    def find_closer(
        self, text: str, start: int, closer: re.Pattern[str], context: ParseContext
    ) -> re.Match[str] | None:
        """Return the closer of the value that starts at `start`, counting nested tags; None if they do not balance
        before the call ends. `closer` distinguishes a closing tag from a mentioned one.
        """
        if not context.may_search(len(text) - start):
            return None
        depth, calls = 1, 0
        for tag in self._any.finditer(text, start):
            match tag.lastgroup:
                case "opens":
                    depth += 1
                case "closes" if depth > 1:
                    depth -= 1
                case "closes":
                    if own := closer.match(text, tag.start()):
                        return own
                case "call":
                    calls += 1
                case _ if calls:
                    calls -= 1
                case _:
                    context.spend_search(4 * (tag.end() - start))  # another value may search the same text again
                    return None
        context.spend_search(4 * (len(text) - start))
        return None


_NAMED = r"(?:parameter|param|argument|arg)(?=Ġ?name=|[\s=>])"
NAMED = NestedTags(_NAMED, r"(?:function|invoke)(?=Ġ?name=|[\s=>])")
"""`<parameter=city>`"""
PAIRED = NestedTags("arg_value", "tool_call")
"""GLM format: the name is in a separate tag before the value."""


def read_children(text: str) -> list[tuple[str, str]] | None:
    """Return the name and raw content of each tag; None if `text` contains anything but tags and white space.

    The meaning of the children depends on the schema. Tags with attributes are not supported.
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
