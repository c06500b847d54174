"""Surroundings of a position: the code around it, and the name, fence or token before it that belongs to a call
starting there.
"""

from __future__ import annotations

import re

from forge_proxy.core.rescue.context.code_spans import CodeSpans
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.grammar.headers import THINK_CLOSE, THINK_OPEN, read_header
from forge_proxy.core.rescue.grammar.markup import ARGUMENT_TOKEN, INVOKE, MINIMAX, NOISE, OPENER
from forge_proxy.core.rescue.grammar.openers import FENCE, PrecedingName

_FENCE_REACH = 80
"""Characters before a position within which an opening fence may start."""
_REACH = 200
"""Characters before a token within which its name may start."""
TOOL_TAG = re.compile(r"<(?P<name>[^\s<>/]{1,128})>")
FUNCTOOLS = "functools"
"""The word that Phi models write before their calls."""


class Surroundings:
    """The surroundings of positions in one text, queried from start to end. `open_fence`, `ended`: see `CodeSpans`."""

    def __init__(self, text: str, context: ParseContext, open_fence: str = "", *, ended: bool = True) -> None:
        self._text = text
        self._context = context
        self._openers = context.openers
        self.code_spans = CodeSpans(text, open_fence, ended=ended)
        self.fence: int | None = None
        """Start of the fence that belongs to the position queried last."""
        self._place = -1
        self._start = 0
        self._fence: int | None = None

    def find_code(self, position: int, low: int, *, opens: bool = False) -> tuple[int, int] | None:
        """Return the code around the position; None if the fence directly before it may belong to a call. `opens` is
        true for an incomplete message header, which may start one.
        """
        self.fence = None
        if (opens or self.may_open(position, low)) and not self.code_spans.find_span(self.find_start(position, low)):
            return None
        return self.code_spans.find_span(position)

    def may_be_code(self, position: int) -> bool:
        """Whether an unclosed backtick precedes the position on its line and a later one may close it."""
        return "\n" not in self._text[position + 1 :] and self.code_spans.has_open_backtick(position)

    def find_start(self, position: int, low: int) -> int:
        """Return the start of a call whose opener is at this position: the name or the fence before it, if any."""
        if position != self._place:  # the code spans may have moved on since, so the first result is kept
            self._place = position
            self._start, self._fence = self._find_beginning(position, low)
        self.fence = self._fence
        return self._start

    def _find_beginning(self, position: int, low: int) -> tuple[int, int | None]:
        """Return the start of the call, and the start of the fence before it if there is one."""
        text = self._text
        if text[position] == "\n":
            return position, None
        start = position
        if ARGUMENT_TOKEN.match(text, position) and (name := self.find_preceding_name(position, low)):
            start = name.start
        elif self.follows_functools(position, low):
            start = position - len(FUNCTOOLS)
        fence = FENCE.search(text, max(low, start - _FENCE_REACH), start)
        if fence and not self.code_spans.find_span(fence.start()):
            return fence.start(), fence.start()
        return (start - len(MINIMAX) if text.endswith(MINIMAX, low, start) else start), None

    def find_preceding_name(self, position: int, low: int) -> PrecedingName | None:
        """Return the offered name before a token."""
        return self._openers.find_preceding_name(self._text, max(low, position - _REACH), position)

    def may_open(self, position: int, low: int) -> bool:
        """Whether the text at this position can start a call, whatever follows it."""
        text = self._text
        if self._openers.opens_learned_form(text, position):
            return True
        if text[position] == "<":
            tag = TOOL_TAG.match(text, position)
            return bool(
                OPENER.match(text, position)
                or INVOKE.match(text, position)
                or (tag and self._context.resolve_name(tag["name"]))
                or (ARGUMENT_TOKEN.match(text, position) and self.find_preceding_name(position, low))
                or ((header := read_header(text, position)) and header.audience == "tool")
            )
        if ARGUMENT_TOKEN.match(text, position):
            return self.find_preceding_name(position, low) is not None
        if text[position] == "[" and not OPENER.match(text, position):
            return not (
                THINK_OPEN.match(text, position) or THINK_CLOSE.match(text, position) or NOISE.match(text, position)
            )
        return text[position] != "]"

    def follows_functools(self, position: int, low: int) -> bool:
        """Whether `functools` precedes this position."""
        start = position - len(FUNCTOOLS)
        before = self._text[max(0, start - 1) : start]
        return self._text.endswith(FUNCTOOLS, low, position) and not (before.isalnum() or before in tuple("_.:/-"))
