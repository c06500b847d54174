"""Explains why something that would be a call on its own is not one in its context.

The rules of the rescue parser are not repeated here. The parser's own functions report text that is displayed or data.
Any other reason is found by an experiment: the same text is parsed again without what follows it, or on its own line.
If no experiment succeeds, the reason is unknown and reported as such.
"""

from __future__ import annotations

import json

from forge_proxy.core.guardrails import Turn
from forge_proxy.core.guardrails.extraction import Extraction, extract
from forge_proxy.core.jsontypes import DECODER
from forge_proxy.core.rescue import RecoveredCall
from forge_proxy.core.rescue.context.code_spans import CodeSpans
from forge_proxy.core.rescue.context.display_only import DisplayOnlySpans, is_displayed, is_indented_or_quoted
from forge_proxy.core.stream import Reply

_NEAR = 200
"""Characters after markup within which its object must begin."""

_CUT = "the response was cut before this call was complete"
_FOLLOWED = "text follows it; a call without markup must end the response"
_IN_LINE = "other text precedes it on its line; a call without markup must begin a line or follow a colon"
_AFTER_TEXT = "too much text precedes it for a call without markup"
_IN_LINE_FOLLOWED = "other text precedes it on its line, and text follows it; a call without markup must stand alone"
_AFTER_TEXT_FOLLOWED = "too much text precedes it for a call without markup, and text follows it"
_BLOCK_FOLLOWED = "text follows its code block; a code block is a call only at the end of the response"
_CODE = "it is in code, which is displayed, not called"
_DISPLAYED = "it is in quotes, HTML or a table, which are displayed, not called"
_DATA = "it is inside JSON or a program, which is data"
_SET_APART = "it is indented like code or quoted, and text follows it"
_REASONING_CONTINUES = "it is in the reasoning, which continues after it"
_ANSWERED = "it is in the reasoning, and a response follows"
_IN_REASONING = "it is in the reasoning, at a place where no call is accepted"
NAMED = "only the name occurs, without a call that can be parsed"
_UNEXPLAINED = "on its own it would be a call; its context prevents that"


class RejectionReasons:
    """The reasons for one reply in which no call was found."""

    def __init__(self, turn: Turn, reply: Reply, extraction: Extraction) -> None:
        self._turn = turn
        self._text = reply.text or ""
        self._cut = reply.finish == "length"
        self._extraction = extraction

    def code_at(self, at: int) -> tuple[int, int] | None:
        """Return start and end of the code that begins at this position or contains it, if any."""
        return CodeSpans(self._text).find_span(at + 1)

    def explain(self, start: int, end: int, call: RecoveredCall) -> str:
        """Return what in the context of `call` prevents it from being one."""
        text = self._text
        if self._extraction.reasoning and text[start:end] not in self._extraction.text:
            return self._explain_in_reasoning(text[start:end])
        if call.open and self._cut:
            return _CUT
        block = self.code_at(start)
        if block:
            return _BLOCK_FOLLOWED if self._has_call(text[: block[1]]) else _CODE
        if is_displayed(text, start, end):
            return _DISPLAYED
        if DisplayOnlySpans(text).contains(start, 0):
            return _DATA
        tries = {
            _SET_APART: text[:end] if is_indented_or_quoted(text, start) else "",
            _FOLLOWED: text[:end],
            _IN_LINE: f"{text[:start]}\n{text[start:]}",
            _IN_LINE_FOLLOWED: f"{text[:start]}\n{text[start:end]}",
            _AFTER_TEXT: text[start:],
            _AFTER_TEXT_FOLLOWED: text[start:end],
        }
        return next((why for why, tried in tries.items() if self._has_call(tried)), _UNEXPLAINED)

    def _explain_in_reasoning(self, written: str) -> str:
        reasoning = self._extraction.reasoning
        if extract(self._turn, Reply(reasoning=reasoning)).calls:
            return _ANSWERED
        at = reasoning.find(written)
        ended = reasoning[: at + len(written)] if at >= 0 else ""
        return _REASONING_CONTINUES if extract(self._turn, Reply(reasoning=ended)).calls else _IN_REASONING

    def _has_call(self, text: str) -> bool:
        return bool(extract(self._turn, Reply(text=text)).calls)

    def explain_unparsed(self, end: int) -> str:
        """Return why no call can be parsed after markup that ends at `end`."""
        brace = self._text.find("{", end, end + _NEAR)
        if brace >= 0:
            try:
                DECODER.raw_decode(self._text, brace)
            except json.JSONDecodeError as error:
                fault = error.msg.removesuffix(" starting at")
                return (
                    f"what follows cannot be parsed; its first JSON error is at {error.lineno}:{error.colno}: {fault}"
                )
            except (ValueError, RecursionError) as error:
                return f"what follows cannot be parsed: {error}"
        return _CODE if self.code_at(end - 1) else "no call that can be parsed follows it"
