"""Finds the closing tag of a value that contains the text of another call, as a file about calls does."""

from __future__ import annotations

import re

from forge_proxy.core.rescue.context.parse_context import ParseContext

# Prefixes of a tag name: MiniMax's token, an XML namespace, DeepSeek's `|DSML|`.
_SPACE_NAMES = r"(?:[|｜]DSML[|｜][ ]?|\w[\w.-]{0,23}[:|｜])?"
OPEN = rf"(?:\]<\]minimax\[>\[)?<{_SPACE_NAMES}"
CLOSE = rf"(?:\]<\]minimax\[>\[)?</{_SPACE_NAMES}"


class NestedTags:
    """Patterns of the tags around values (`value`) inside the tags around calls (`call`)."""

    def __init__(self, value: str, call: str) -> None:
        self._value = re.compile(rf"{OPEN}{value}[^<>\n]{{0,160}}>")
        self._call = re.compile(rf"{OPEN}{call}[^<>\n]{{0,160}}>")
        self._any = re.compile(
            rf"(?P<opens>{self._value.pattern})|(?P<closes>{CLOSE}{value}\s*>)"
            rf"|(?P<call>{self._call.pattern})|(?P<over>{CLOSE}{call}\s*>)"
        )

    def holds_value(self, text: str, start: int, end: int) -> bool:
        """Whether another value starts inside the span of a candidate value."""
        return self._value.search(text, start, end) is not None

    def holds_call(self, text: str, start: int, end: int) -> bool:
        """Whether another call starts inside the span of a candidate value."""
        return self._call.search(text, start, end) is not None

    def own_closer(self, text: str, start: int, closer: re.Pattern[str], context: ParseContext) -> re.Match[str] | None:
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
                    context.searched(4 * (tag.end() - start))  # another value may search the same text again
                    return None
        context.searched(4 * (len(text) - start))
        return None


_NAMED = r"(?:parameter|param|argument|arg)(?=[\s=>])"
NAMED = NestedTags(_NAMED, r"(?:function|invoke)(?=[\s=>])")
"""`<parameter=city>`"""
PAIRED = NestedTags("arg_value", "tool_call")
"""GLM format: the name is in a separate tag before the value."""
