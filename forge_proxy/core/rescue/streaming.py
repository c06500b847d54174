"""Streaming parser: releases plain text and reasoning as soon as no further text can make them part of a call.

The concatenated output depends only on the whole text, never on how it was split into chunks: the parser decides only
when no further text can change the decision.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from forge_proxy.core.rescue.context.candidates import Candidate, judge_place, judge_start
from forge_proxy.core.rescue.context.code_spans import CodeSpans
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.grammar.headers import THINK_OPEN, is_mention, read_header
from forge_proxy.core.rescue.grammar.openers import openers
from forge_proxy.core.rescue.grammar.special_tokens import SpecialToken, end_of_mention, read_token
from forge_proxy.core.rescue.output_buffer import OutputBuffer, OutputPiece
from forge_proxy.core.rescue.parser import Parser
from forge_proxy.core.rescue.rescue import RecoveredCall, rescue

_KEEP = 200
"""Characters before a position that determine its meaning: its line, a name, a fence."""
_SURE = 700
"""Characters after which an unfinished message header can no longer become one."""
_LONG_LINE = 8_000
_SLICE = 2_000
"""Characters processed at a time, because each decision scans the whole retained text."""
_STRETCH = 16_000
"""Characters after which the whole buffered text is parsed regardless of cost and of chunk boundaries. Text that stays
buffered for another such interval is buffered to the end: each parse costs its length and blocks the event loop.
"""
_MAY_BE_CUT = re.compile(r"[^\s\w~`]|\d")
"""Where a long line may be cut: the text after the cut must not look like the start of a line."""
_CLOSES = re.compile(r"[}\])>`\n ]")
_HEADERS = ("<|start|>", "<|channel|>", "<|message|>", "<|message_sep|>")
_PARTIAL = 48


class StreamingParser:
    """Incremental parser: `feed` returns plain text and reasoning, and buffers text that may be part of a call.

    Once a call has certainly started, everything from there on is buffered; `calls` returns the complete calls in it.
    """

    def __init__(self, names: Collection[str], *, template_thinks: bool = True) -> None:
        self._names = tuple(sorted(names))
        self._look = ParseContext(self._names)
        self._openers = openers(self._names)
        self._template_thinks = template_thinks
        self._text = ""
        """The retained text: the buffered text and some context before it."""
        self._more: list[str] = []
        """Text received after `_text` while no decision is possible."""
        self._more_length = 0
        self._at: int = 0
        """Position in `_text` before which everything has been released or dropped."""
        self._since = 0
        """End of the last reasoning block or special token."""
        self._first = True
        """Whether `_text` starts at the beginning of the response."""
        self._inside = ""
        """The code fence that is open at the start of `_text`."""
        self._out = OutputBuffer()
        self._thought: re.Pattern[str] | None = None
        """The pattern that ends the current reasoning block; None outside reasoning."""
        self._thought_before = False
        self._waits = False
        """Whether the decision needs a closing bracket or many more characters."""
        self._opened = False
        self._length: int = 0
        self._due: int = _STRETCH
        """Length of the whole text at which the buffered text is parsed next."""
        self._spent: int = 0
        self._forget_at = 8 * _KEEP
        self._end: tuple[int, int] | None = None
        """Cached result of `Openers.held_from` for `_text`."""

    @property
    def held(self) -> str:
        """The buffered text, which may be the start of a call."""
        return "" if self._thought else self._text[self._at :] + "".join(self._more)

    @property
    def holds_text(self) -> bool:
        """Whether more than white space is buffered."""
        if self._thought is None and (self._opened or self._waits):
            return True
        return bool(self.held.strip())

    @property
    def calls(self) -> tuple[RecoveredCall, ...]:
        """The complete calls in the buffered text; their positions are relative to its start."""
        return tuple(call for call in rescue(self.held, self._names).calls if not call.open)

    def feed(self, piece: str) -> list[OutputPiece]:
        """Add a chunk and return the released pieces, in order. Released pieces are final."""
        given: list[OutputPiece] = []
        at = 0
        while not self._opened and len(piece) - at > (size := min(_SLICE, self._due - self._length)):
            given += self._feed(piece[at : at + size])
            at += size
        return given + self._feed(piece[at:] if at else piece)

    def _feed(self, piece: str) -> list[OutputPiece]:
        self._more.append(piece)
        self._more_length += len(piece)
        self._length += len(piece)
        is_due = self._length == self._due
        if self._opened or (self._waits and not is_due and not self._may_decide(piece)):
            return []
        given = self._look_on()
        if is_due:
            self._due += _STRETCH
            self._opened = self._opened or (self._thought is None and len(self._text) - self._at >= _STRETCH)
        return given

    def _look_on(self) -> list[OutputPiece]:
        """Process as much of the received text as can be decided."""
        self._text += "".join(self._more)
        self._end = None
        self._more, self._more_length = [], 0
        self._waits = False
        while self._step():
            pass
        self._forget()
        return self._out.take()

    def settle(self) -> list[OutputPiece]:
        """Make the decisions that `feed` postponed to save time, and return the released pieces."""
        if not self._waits or self._opened:
            return []
        self._spent = 0
        self._waits = False
        return self.feed("")

    def _may_decide(self, piece: str) -> bool:
        """Whether to parse the buffered text again. Each parse costs its length; the total cost is limited to a small
        multiple of the whole text.
        """
        length = len(self._text) - self._at + self._more_length
        if not _CLOSES.search(piece) or self._spent + length > 2 * self._length + 8_000:
            return False
        self._spent += length
        return True

    def _step(self) -> bool:
        """Process the next position; return whether to continue."""
        if self._thought is not None:
            return self._go_on_thinking(self._thought)
        text, at = self._text, self._at
        first = self._first and not text[:at].strip()
        if first and self._openers.begins_with_call(text):
            return self._take_suspect(judge_start(Parser(text, self._look, ended=False), at, text))
        place = self._openers.find(text, at)
        held, unfinished = self._held_from(at, first=first)
        if place < 0 or place >= unfinished:
            self._say_to(held)
            return False
        return self._take_place(place, held)

    def _held_from(self, at: int, *, first: bool) -> tuple[int, int]:
        """Return `Openers.held_from`, cached until the parser passes the position found."""
        if self._end is None or first or min(self._end) < at:
            self._end = self._openers.held_from(self._text, at, first=first)
        return self._end

    def _take_place(self, place: int, held: int) -> bool:
        text = self._text
        walk = Parser(text, self._look, self._inside, self._since, ended=False)
        undecided = text.startswith(_HEADERS, place) and len(text) - place < _SURE and not read_header(text, place)
        if code := walk.around.code(place, self._at, opens=undecided):
            return self._say_to(min(code[1], held))
        if undecided:
            return self._wait(walk.around.begins(place, self._at))
        if walk.around.may_be_code(place):
            return self._wait(walk.around.begins(place, self._at))
        opens = walk.around.may_open(place, self._at)
        if not opens and (end := end_of_mention(text, place)):
            if end == len(text):
                return self._wait(place)
            if is_mention(text, place, end):
                return self._say_to(end)
        if text[place] in "<[]":
            if token := read_token(text, place, opens=opens):
                return self._take_token(place, token)
            if THINK_OPEN.match(text, place):
                return self._wait(place)
        return self._take_suspect(judge_place(walk, place, self._at, text))

    def _take_token(self, place: int, token: SpecialToken) -> bool:
        """Drop a special token, start reasoning, or mark the released text as reasoning."""
        self._say_to(place)
        self._at = self._since = token.end
        if token.thought is not None:
            self._thought, self._thought_before = token.thought, True
            self._out.pause()
        elif token.closes and not self._thought_before and self._template_thinks:
            self._thought_before = True
            self._out.recall()
        return True

    def _take_suspect(self, suspect: Candidate) -> bool:
        """Buffer a possible call, or release it as plain text."""
        if suspect.plain_to is not None:
            self._say_to(suspect.plain_to)
            return True
        self._opened = suspect.certain
        return self._wait(suspect.begins)

    def _wait(self, begins: int) -> bool:
        """Release the text before this position and buffer the rest."""
        self._say_to(max(self._at, begins))
        self._waits = True
        return False

    def _say_to(self, end: int) -> bool:
        """Release the text before this position; return whether there was any."""
        if end <= self._at:
            return False
        self._out.say(self._text[self._at : end])
        self._at = end
        return True

    def _go_on_thinking(self, closer: re.Pattern[str]) -> bool:
        text = self._text
        closing = closer.search(text, self._at)
        end = closing.start() if closing else len(text)
        if closing is None:
            low = max(self._at, len(text) - _PARTIAL)
            begun = max(text.rfind("<", low), text.rfind("[", low))
            end = begun if begun >= 0 else len(text)
        self._out.think(text[self._at : end])
        self._at = end
        if closing is None:
            return False
        # Neither a code fence inside the reasoning nor its line affects the text after it.
        self._text = text[closing.end() :]
        self._end = None
        self._at = self._since = 0
        self._inside = ""
        self._first = False
        self._thought = None
        return True

    def _forget(self) -> None:
        """Drop text that is no longer needed, up to the start of a line or a position inside a long one."""
        if self._at < self._forget_at:
            return
        quotes = CodeSpans(self._text, self._inside)
        cut = self._text.rfind("\n", 0, self._at - _KEEP) + 1
        if cut < self._at - 4 * _KEEP:
            cut = max(cut, self._cut_in_line(quotes))
        if cut == 0 and self._at > _LONG_LINE:
            cut = self._at - _KEEP
            self._opened = "`" in self._text[:cut]  # a line of this length cannot be split into code and text
            quotes = CodeSpans(self._text, self._inside)
        if cut:
            self._inside = quotes.fence_at(cut)
            self._text = self._text[cut:]
            self._at -= cut
            self._since -= cut
            self._first = False
        self._forget_at = self._at + 8 * _KEEP

    def _cut_in_line(self, quotes: CodeSpans) -> int:
        """Return where the released line may be cut so that no backtick before the cut pairs with one after it; 0 if
        there is no such position.
        """
        found = _MAY_BE_CUT.search(self._text, self._at - 2 * _KEEP, self._at - _KEEP)
        if not found:
            return 0
        cut = found.start()
        is_plain = not quotes.around(cut) and not quotes.tick_before(cut)
        return cut if is_plain or quotes.fence_at(cut) else 0
