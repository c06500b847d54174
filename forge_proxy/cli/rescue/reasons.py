"""What keeps something that would be a call by itself from being one where it stands.

Nothing of the reader's rules is repeated here. What is shown or data it is asked. Any other reason is an experiment
with the daemon's own reading: the same words without what follows them, on a line of their own. What no experiment
explains is only said to be so.
"""

from __future__ import annotations

import json

from forge_proxy.core.guardrails import Turn
from forge_proxy.core.guardrails.extraction import Extraction, read
from forge_proxy.core.jsontypes import DECODER
from forge_proxy.core.rescue import RecoveredCall
from forge_proxy.core.rescue.context.code_spans import CodeSpans
from forge_proxy.core.rescue.context.display_only import DisplayOnlySpans, is_set_apart, is_shown
from forge_proxy.core.stream import Reply

_NEAR = 200
"""How far after markup the object may begin that belongs to it."""

_CUT = "the answer was cut before this call was closed, and nobody knows after how much"
_FOLLOWED = "text follows it: a call without markup counts where the answer ends with it"
_IN_LINE = "words stand before it on its line: a call without markup begins a line, or follows a colon"
_LED_IN = "too much text stands before it for a call without markup"
_IN_LINE_FOLLOWED = (
    "words stand before it on its line, and text follows it: without markup, a call has a place of its own"
)
_LED_IN_FOLLOWED = "too much text stands before it for a call without markup, and text follows it"
_BLOCK_FOLLOWED = "it stands in a code block that text follows: a block counts where the answer ends with it"
_CODE = "it stands in code, which is shown and not called"
_SHOWN = "it stands between quotes, in HTML or in a table, where it is shown and not called"
_DATA = "it stands in a text of JSON or of a program, which is data"
_SET_APART = "it is indented like code or quoted, and text follows it"
_THOUGHT_ON = "it stands in the thoughts, which go on after it"
_ANSWERED = "it stands in the thoughts, and an answer follows them"
_THOUGHT = "it stands in the thoughts, and not where a call may stand in them"
NAMED = "it is only named: no call that can be read stands there"
_UNEXPLAINED = "by itself it would be read as a call; what stands around it keeps it from being one"


class Reasons:
    """The reasons in one reply, of which no call was read."""

    def __init__(self, turn: Turn, reply: Reply, reading: Extraction) -> None:
        self._turn = turn
        self._text = reply.text or ""
        self._cut = reply.finish == "length"
        self._reading = reading

    def code_at(self, at: int) -> tuple[int, int] | None:
        """From where to where the code goes that begins at the place or goes around it."""
        return CodeSpans(self._text).around(at + 1)

    def why_not(self, start: int, end: int, piece: RecoveredCall) -> str:
        """Which part of its surroundings keeps it from being a call."""
        text = self._text
        if self._reading.thought and text[start:end] not in self._reading.text:
            return self._why_in_thoughts(text[start:end])
        if piece.open and self._cut:
            return _CUT
        block = self.code_at(start)
        if block:
            return _BLOCK_FOLLOWED if self._takes(text[: block[1]]) else _CODE
        if is_shown(text, start, end):
            return _SHOWN
        if DisplayOnlySpans(text).holds(start, 0):
            return _DATA
        tries = {
            _SET_APART: text[:end] if is_set_apart(text, start) else "",
            _FOLLOWED: text[:end],
            _IN_LINE: f"{text[:start]}\n{text[start:]}",
            _IN_LINE_FOLLOWED: f"{text[:start]}\n{text[start:end]}",
            _LED_IN: text[start:],
            _LED_IN_FOLLOWED: text[start:end],
        }
        return next((why for why, tried in tries.items() if self._takes(tried)), _UNEXPLAINED)

    def _why_in_thoughts(self, written: str) -> str:
        thought = self._reading.thought
        if read(self._turn, Reply(reasoning=thought)).calls:
            return _ANSWERED
        at = thought.find(written)
        ended = thought[: at + len(written)] if at >= 0 else ""
        return _THOUGHT_ON if read(self._turn, Reply(reasoning=ended)).calls else _THOUGHT

    def _takes(self, text: str) -> bool:
        return bool(read(self._turn, Reply(text=text)).calls)

    def why_unreadable(self, end: int) -> str:
        """What can be said of markup that ends there and that no readable call follows."""
        brace = self._text.find("{", end, end + _NEAR)
        if brace >= 0:
            try:
                DECODER.raw_decode(self._text, brace)
            except json.JSONDecodeError as error:
                fault = error.msg.removesuffix(" starting at")
                return (
                    f"what follows cannot be read; as JSON, its first fault is at {error.lineno}:{error.colno}: {fault}"
                )
            except (ValueError, RecursionError) as error:
                return f"what follows cannot be read: {error}"
        return _CODE if self.code_at(end - 1) else "no call that can be read follows it"
