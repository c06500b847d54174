"""Which closing tag is a value's own, where the value holds the text of another call, as a file about calls."""

from __future__ import annotations

import re

from forge_proxy.core.rescue.context.parse_context import ParseContext

# What may stand before a tag's own name: a token of MiniMax, a name space, DeepSeek's mark.
_SPACE_NAMES = r"(?:[|｜]DSML[|｜][ ]?|\w[\w.-]{0,23}[:|｜])?"
OPEN = rf"(?:\]<\]minimax\[>\[)?<{_SPACE_NAMES}"
CLOSE = rf"(?:\]<\]minimax\[>\[)?</{_SPACE_NAMES}"


class NestedTags:
    """Tags that stand around values, `value`, inside those around calls, `call`, each with what may follow its name."""

    def __init__(self, value: str, call: str) -> None:
        self._value = re.compile(rf"{OPEN}{value}[^<>\n]{{0,160}}>")
        self._call = re.compile(rf"{OPEN}{call}[^<>\n]{{0,160}}>")
        self._any = re.compile(
            rf"(?P<opens>{self._value.pattern})|(?P<closes>{CLOSE}{value}\s*>)"
            rf"|(?P<call>{self._call.pattern})|(?P<over>{CLOSE}{call}\s*>)"
        )

    def holds_value(self, text: str, start: int, end: int) -> bool:
        """Whether another value begins in what may be one."""
        return self._value.search(text, start, end) is not None

    def holds_call(self, text: str, start: int, end: int) -> bool:
        """Whether another call begins in what may be a value."""
        return self._call.search(text, start, end) is not None

    def own_closer(self, text: str, start: int, closer: re.Pattern[str], look: ParseContext) -> re.Match[str] | None:
        """What closes the value that begins at `start`, tags inside it counted; None if they are not even before the
        call is over. `closer` tells a closing tag from one that is only mentioned.
        """
        if not look.may_search(len(text) - start):
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
                    look.searched(4 * (tag.end() - start))  # another value may look through the same text again
                    return None
        look.searched(4 * (len(text) - start))
        return None


_NAMED = r"(?:parameter|param|argument|arg)(?=[\s=>])"
NAMED = NestedTags(_NAMED, r"(?:function|invoke)(?=[\s=>])")
"""`<parameter=city>`"""
PAIRED = NestedTags("arg_value", "tool_call")
"""GLM's: the name stands in a tag before that of the value."""
