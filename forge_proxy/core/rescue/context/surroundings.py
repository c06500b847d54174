"""What surrounds a place in a text: the code it stands in, and the name, the fence or the token before it that belong
to a call which begins there.
"""

from __future__ import annotations

import re

from forge_proxy.core.rescue.context.code_spans import CodeSpans
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.grammar.headers import THINK_CLOSE, THINK_OPEN, read_header
from forge_proxy.core.rescue.grammar.markup import ARGUMENT_TOKEN, INVOKE, MINIMAX, NOISE, OPENER
from forge_proxy.core.rescue.grammar.openers import FENCE, PrecedingName, openers

_FENCE_REACH = 80
"""How far before a place an opening fence may begin."""
_REACH = 200
"""How far before a token the name may begin that belongs to it."""
TOOL_TAG = re.compile(r"<(?P<name>[^\s<>/]{1,128})>")
FUNCTOOLS = "functools"
"""The word that Phi writes before its calls."""


class Surroundings:
    """The surroundings of places in one text, asked from front to back. `inside` and `ended` as for `CodeSpans`."""

    def __init__(self, text: str, look: ParseContext, inside: str = "", *, ended: bool = True) -> None:
        self._text = text
        self._look = look
        self._openers = openers(look.names)
        self.quotes = CodeSpans(text, inside, ended=ended)
        self.fence: int | None = None
        """Where the fence stands that belongs to the place asked about last."""
        self._place = -1
        self._begins = 0
        self._fence: int | None = None

    def code(self, place: int, low: int, *, opens: bool = False) -> tuple[int, int] | None:
        """The code that the place stands in; none where the fence right before it may belong to a call, which `opens`
        says of a header that is not whole yet.
        """
        self.fence = None
        if (opens or self.may_open(place, low)) and not self.quotes.around(self.begins(place, low)):
            return None
        return self.quotes.around(place)

    def may_be_code(self, place: int) -> bool:
        """Whether a backtick stands open before the place, on its line, that one to come may close."""
        return "\n" not in self._text[place + 1 :] and self.quotes.tick_before(place)

    def begins(self, place: int, low: int) -> int:
        """Where a call begins whose opener stands at this place: at the name or the fence before it."""
        if place != self._place:  # asked again, code further on may have been passed over
            self._place = place
            self._begins, self._fence = self._find_beginning(place, low)
        self.fence = self._fence
        return self._begins

    def _find_beginning(self, place: int, low: int) -> tuple[int, int | None]:
        """The same, and where the fence stands before it, if there is one."""
        text = self._text
        if text[place] == "\n":
            return place, None
        start = place
        if ARGUMENT_TOKEN.match(text, place) and (name := self.name_before(place, low)):
            start = name.start
        elif self.functools(place, low):
            start = place - len(FUNCTOOLS)
        fence = FENCE.search(text, max(low, start - _FENCE_REACH), start)
        if fence and not self.quotes.around(fence.start()):
            return fence.start(), fence.start()
        return (start - len(MINIMAX) if text.endswith(MINIMAX, low, start) else start), None

    def name_before(self, place: int, low: int) -> PrecedingName | None:
        """The offered name that stands before a token."""
        return self._openers.name_before(self._text, max(low, place - _REACH), place)

    def may_open(self, place: int, low: int) -> bool:
        """Whether something that begins a call stands at this place, whatever follows it."""
        text = self._text
        if text[place] == "<":
            tag = TOOL_TAG.match(text, place)
            return bool(
                OPENER.match(text, place)
                or INVOKE.match(text, place)
                or (tag and self._look.name(tag["name"]))
                or (ARGUMENT_TOKEN.match(text, place) and self.name_before(place, low))
                or ((header := read_header(text, place)) and header.audience == "tool")
            )
        if ARGUMENT_TOKEN.match(text, place):
            return self.name_before(place, low) is not None
        if text[place] == "[" and not OPENER.match(text, place):
            return not (THINK_OPEN.match(text, place) or THINK_CLOSE.match(text, place) or NOISE.match(text, place))
        return text[place] != "]"

    def functools(self, place: int, low: int) -> bool:
        """Whether Phi's word stands before this place."""
        start = place - len(FUNCTOOLS)
        before = self._text[max(0, start - 1) : start]
        return self._text.endswith(FUNCTOOLS, low, place) and not (before.isalnum() or before in tuple("_.:/-"))
