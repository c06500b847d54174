"""Streaming parser: releases plain text and reasoning as soon as no further text can make them part of a call.

The concatenated output depends only on the whole text, never on how it was split into chunks: the parser decides only
when no further text can change the decision.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from forge_proxy.core.rescue.candidates import Candidate, judge_position, judge_start
from forge_proxy.core.rescue.context.code_spans import CodeSpans
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.grammar.headers import (
    THINK_OPEN,
    SpecialToken,
    find_mention_end,
    is_mention,
    read_header,
    read_token,
)
from forge_proxy.core.rescue.grammar.learned_form import LearnedForm
from forge_proxy.core.rescue.output_buffer import OutputBuffer, OutputPiece
from forge_proxy.core.rescue.parser import Parser
from forge_proxy.core.rescue.rescue import RecoveredCall, rescue

_CONTEXT_LENGTH = 200
"""Characters before a position that determine its meaning: its line, a name, a fence."""
_MAX_HEADER = 700
"""Characters after which an unfinished message header can no longer become one."""
_LONG_LINE = 8_000
"""Characters after an unclosed backtick on its line from which on the text is buffered to the end, because it may be
code. From half that length, a line may be cut anywhere outside code.
"""
_SLICE_LENGTH = 2_000
"""Characters processed at a time, because each decision scans the whole retained text."""
_CHECK_INTERVAL = 16_000
"""Characters after which the whole buffered text is parsed regardless of cost and of chunk boundaries. Text that stays
buffered for another such interval is buffered to the end: each parse costs its length and blocks the event loop.
"""
_LINE_CUT = re.compile(r"[^\s\w~`]|\d")
"""Where a long line may be cut: the text after the cut must not look like the start of a line."""
_CLOSES = re.compile(r"[}\])>`\n ]")
_HEADERS = ("<|start|>", "<|channel|>", "<|message|>", "<|message_sep|>")
_MAX_PARTIAL_TAG = 48
_SECTION_CLOSES = "<|close|>"
_SECTION_LENGTH = len("<|close|>think")
"""A section of reasoning ends with `<|close|>think<|sep|>`, the only such markup with a second `<` in it."""


class StreamingParser:
    """Incremental parser: `feed` returns plain text and reasoning, and buffers text that may be part of a call.

    Once a call has certainly started, everything from there on is buffered; `calls` returns the complete calls in it.
    """

    def __init__(
        self, names: Collection[str], *, template_thinks: bool = True, form: LearnedForm | None = None
    ) -> None:
        self._names = tuple(sorted(names))
        self._form = form
        self._context = ParseContext(self._names, form=form)
        self._openers = self._context.openers
        self._template_thinks = template_thinks
        self._text = ""
        """The retained text: the buffered text and some context before it."""
        self._pending: list[str] = []
        """Text received after `_text` while no decision is possible."""
        self._pending_length = 0
        self._at: int = 0
        """Position in `_text` before which everything has been released or dropped."""
        self._previous_end = 0
        """End of the last reasoning block or special token."""
        self._first = True
        """Whether `_text` starts at the beginning of the response."""
        self._open_fence = ""
        """The code fence that is open at the start of `_text`."""
        self._output = OutputBuffer()
        self._reasoning_end: re.Pattern[str] | None = None
        """The pattern that ends the current reasoning block; None outside reasoning."""
        self._had_reasoning = False
        self._is_waiting = False
        """Whether the decision needs a closing bracket or many more characters."""
        self._in_call = False
        self._length: int = 0
        self._next_check: int = _CHECK_INTERVAL
        """Length of the whole text at which the buffered text is parsed next."""
        self._parse_cost: int = 0
        self._drop_at = 8 * _CONTEXT_LENGTH
        self._line_limit = _LONG_LINE
        """The first position in `_text` at which an unclosed backtick may be `_LONG_LINE` characters back."""
        self._cached_end: tuple[int, int] | None = None
        """Cached result of `Openers.find_undecided_end` for `_text`."""

    @property
    def buffered_text(self) -> str:
        """The buffered text, which may be the start of a call."""
        return "" if self._reasoning_end else self._text[self._at :] + "".join(self._pending)

    @property
    def has_buffered_text(self) -> bool:
        """Whether more than white space is buffered."""
        if self._reasoning_end is None and (self._in_call or self._is_waiting):
            return True
        return bool(self.buffered_text.strip())

    @property
    def calls(self) -> tuple[RecoveredCall, ...]:
        """The complete calls in the buffered text; their positions are relative to its start."""
        return tuple(call for call in rescue(self.buffered_text, self._names, form=self._form).calls if not call.open)

    def feed(self, piece: str) -> list[OutputPiece]:
        """Add a chunk and return the released pieces, in order. Released pieces are final."""
        released: list[OutputPiece] = []
        at = 0
        while not self._in_call and len(piece) - at > (size := min(_SLICE_LENGTH, self._next_check - self._length)):
            released += self._feed(piece[at : at + size])
            at += size
        return released + self._feed(piece[at:] if at else piece)

    def _feed(self, piece: str) -> list[OutputPiece]:
        self._pending.append(piece)
        self._pending_length += len(piece)
        self._length += len(piece)
        is_due = self._length == self._next_check
        if self._in_call or (self._is_waiting and not is_due and not self._should_parse_again(piece)):
            return []
        released = self._process_pending()
        if is_due:
            self._next_check += _CHECK_INTERVAL
            self._in_call = self._in_call or (
                self._reasoning_end is None and len(self._text) - self._at >= _CHECK_INTERVAL
            )
        return released

    def _process_pending(self) -> list[OutputPiece]:
        """Process as much of the received text as can be decided."""
        self._text += "".join(self._pending)
        self._cached_end = None
        self._pending, self._pending_length = [], 0
        self._is_waiting = False
        while not self._in_call and self._step():
            pass
        self._drop_processed()
        return self._output.take()

    def decide_postponed(self) -> list[OutputPiece]:
        """Make the decisions that `feed` postponed to save time, and return the released pieces."""
        if not self._is_waiting or self._in_call:
            return []
        self._parse_cost = 0
        self._is_waiting = False
        return self.feed("")

    def _should_parse_again(self, piece: str) -> bool:
        """Whether to parse the buffered text again. Each parse costs its length; the total cost is limited to a small
        multiple of the whole text.
        """
        length = len(self._text) - self._at + self._pending_length
        if not _CLOSES.search(piece) or self._parse_cost + length > 2 * self._length + 8_000:
            return False
        self._parse_cost += length
        return True

    def _step(self) -> bool:
        """Process the next position; return whether to continue."""
        if self._reasoning_end is not None:
            return self._continue_reasoning(self._reasoning_end)
        text, at = self._text, self._at
        first = self._first and not text[:at].strip()
        if first and self._openers.begins_with_call(text):
            return self._apply_candidate(judge_start(Parser(text, self._context, ended=False), at, text))
        position = self._openers.find(text, at)
        undecided_from, unfinished = self._find_undecided_end(at, first=first)
        if position < 0 or position >= unfinished:
            self._release_to(undecided_from)
            return False
        return self._process_place(position, undecided_from)

    def _find_undecided_end(self, at: int, *, first: bool) -> tuple[int, int]:
        """Return `Openers.find_undecided_end`, cached until the parser passes the position found."""
        if self._cached_end is None or first or min(self._cached_end) < at:
            self._cached_end = self._openers.find_undecided_end(self._text, at, first=first)
        return self._cached_end

    def _process_place(self, position: int, undecided_from: int) -> bool:
        text = self._text
        parser = Parser(text, self._context, self._open_fence, self._previous_end, ended=False)
        undecided = (
            text.startswith(_HEADERS, position)
            and len(text) - position < _MAX_HEADER
            and not read_header(text, position)
        )
        if code := parser.surroundings.find_code(position, self._at, opens=undecided):
            return self._release_to(min(code[1], undecided_from))
        if undecided:
            return self._buffer_from(parser.surroundings.find_start(position, self._at))
        if parser.surroundings.may_be_code(position):
            return self._buffer_from(parser.surroundings.find_start(position, self._at))
        opens = parser.surroundings.may_open(position, self._at)
        if not opens and (end := find_mention_end(text, position)):
            if end == len(text):
                return self._buffer_from(position)
            if is_mention(text, position, end):
                return self._release_to(end)
        if text[position] in "<[]":
            if token := read_token(text, position, opens=opens):
                return self._apply_token(position, token)
            if THINK_OPEN.match(text, position):
                return self._buffer_from(position)
        return self._apply_candidate(judge_position(parser, position, self._at, text))

    def _apply_token(self, position: int, token: SpecialToken) -> bool:
        """Drop a special token, start reasoning, or mark the released text as reasoning."""
        self._release_to(position)
        if self._in_call:  # the line is too long: everything from there on is buffered
            return False
        self._at = self._previous_end = token.end
        if token.reasoning_end is not None:
            self._reasoning_end, self._had_reasoning = token.reasoning_end, True
            self._output.begin_reasoning()
        elif token.closes and not self._had_reasoning and self._template_thinks:
            self._had_reasoning = True
            self._output.reclassify_text()
        return True

    def _apply_candidate(self, candidate: Candidate) -> bool:
        """Buffer a possible call, or release it as plain text."""
        if candidate.plain_to is not None:
            return self._release_to(candidate.plain_to)
        self._in_call = candidate.certain
        return self._buffer_from(candidate.begins)

    def _buffer_from(self, begins: int) -> bool:
        """Release the text before this position and buffer the rest."""
        self._release_to(max(self._at, begins))
        self._is_waiting = True
        return False

    def _release_to(self, end: int) -> bool:
        """Release the text before this position; return whether there was any."""
        if end >= self._line_limit:
            spans = CodeSpans(self._text, self._open_fence, ended=False)
            self._line_limit = spans.find_line_limit(_LONG_LINE)
            if end >= self._line_limit:
                self._in_call, end = True, self._line_limit
        if end <= self._at:
            return False
        self._output.add_text(self._text[self._at : end])
        self._at = end
        return True

    def _continue_reasoning(self, closer: re.Pattern[str]) -> bool:
        text = self._text
        closing = closer.search(text, self._at)
        end = closing.start() if closing else len(text)
        if closing is None:
            low = max(self._at, len(text) - _MAX_PARTIAL_TAG)
            tag_start = max(text.rfind("<", low), text.rfind("[", low))
            if (section := text.rfind(_SECTION_CLOSES, low)) >= 0 and tag_start <= section + _SECTION_LENGTH:
                tag_start = section
            end = tag_start if tag_start >= 0 else len(text)
        self._output.add_reasoning(text[self._at : end])
        self._at = end
        if closing is None:
            return False
        # Neither a code fence inside the reasoning nor its line affects the text after it.
        self._text = text[closing.end() :]
        self._cached_end = None
        self._at = self._previous_end = 0
        self._open_fence = ""
        self._line_limit = _LONG_LINE
        self._first = False
        self._reasoning_end = None
        return True

    def _drop_processed(self) -> None:
        """Drop text that is no longer needed, up to the start of a line or a position inside a long one."""
        if self._at < self._drop_at:
            return
        quotes = CodeSpans(self._text, self._open_fence, ended=False)
        cut = self._text.rfind("\n", 0, self._at - _CONTEXT_LENGTH) + 1
        if cut < self._at - 4 * _CONTEXT_LENGTH:
            cut = max(cut, self._cut_in_line(quotes))
        if cut == 0 and self._at > _LONG_LINE // 2:
            cut = self._cut_long_line()
            quotes = CodeSpans(self._text, self._open_fence, ended=False)
        if cut:
            self._open_fence = quotes.find_open_fence(cut)
            self._text = self._text[cut:]
            self._at -= cut
            self._previous_end -= cut
            self._line_limit -= cut
            self._first = False
        self._drop_at = self._at + 8 * _CONTEXT_LENGTH

    def _cut_in_line(self, quotes: CodeSpans) -> int:
        """Return where the released line may be cut so that no backtick before the cut pairs with one after it; 0 if
        there is no such position.
        """
        match = _LINE_CUT.search(self._text, self._at - 2 * _CONTEXT_LENGTH, self._at - _CONTEXT_LENGTH)
        if not match:
            return 0
        cut = match.start()
        is_plain = not quotes.find_span(cut) and not quotes.has_open_backtick(cut)
        return cut if is_plain or quotes.find_open_fence(cut) else 0

    def _cut_long_line(self) -> int:
        """Return where a long line that has no better position may be cut: before an inline code span, if one is
        there; 0 after an unclosed backtick.
        """
        cut = self._at - _CONTEXT_LENGTH
        quotes = CodeSpans(self._text, self._open_fence, ended=False)
        span = quotes.find_span(cut)
        if span is None:
            return 0 if quotes.has_open_backtick(cut) else cut
        return cut if quotes.find_open_fence(cut) else span[0]
