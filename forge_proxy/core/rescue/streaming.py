"""Says of a text that is still being written which beginning of it is certainly plain, and which is thought.

What is given out in all depends on the whole text only, never on how it was cut: each decision is taken when no further
text could change it.
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
"""Characters before a place that decide what it is: the line it stands on, a name, a fence."""
_SURE = 700
"""Characters after which no message header can end that has not."""
_LONG_LINE = 8_000
_SLICE = 2_000
"""Characters that are taken in at a time: each decision looks at all the text that is kept."""
_STRETCH = 16_000
"""Characters after which all that is held is looked at, whatever it costs, wherever the text is cut. What was held then
for as long already is held to the end: each look costs its length, and nobody else is served meanwhile.
"""
_MAY_BE_CUT = re.compile(r"[^\s\w~`]|\d")
"""Where a long line may be cut: what follows does not look as if it began a line."""
_CLOSES = re.compile(r"[}\])>`\n ]")
_HEADERS = ("<|start|>", "<|channel|>", "<|message|>", "<|message_sep|>")
_PARTIAL = 48


class StreamingParser:
    """Fed piece by piece, gives out what is plain text and what is thought, and holds what may be part of a call.

    Once a call has certainly begun, everything from there on is held to the end: `calls` are those that are complete.
    """

    def __init__(self, names: Collection[str], *, template_thinks: bool = True) -> None:
        self._names = tuple(sorted(names))
        self._look = ParseContext(self._names)
        self._openers = openers(self._names)
        self._template_thinks = template_thinks
        self._text = ""
        """What is still needed: what is held, and some text before it."""
        self._more: list[str] = []
        """What came after `_text`, while nothing can be decided."""
        self._more_length = 0
        self._at: int = 0
        """What stands before this place in `_text` has been given out or dropped."""
        self._since = 0
        """Where the thought or token ended that came last."""
        self._first = True
        """Whether `_text` is where the answer begins."""
        self._inside = ""
        """The code fence that is open where `_text` begins."""
        self._out = OutputBuffer()
        self._thought: re.Pattern[str] | None = None
        """What ends the thought that is being read."""
        self._thought_before = False
        self._waits = False
        """Whether something is held that only a closing bracket or many more characters can decide."""
        self._opened = False
        self._length: int = 0
        self._due: int = _STRETCH
        """The next length of the whole text at which what is held is looked at."""
        self._spent: int = 0
        self._forget_at = 8 * _KEEP
        self._end: tuple[int, int] | None = None
        """What may begin at the end of `_text`, once it was looked for: see `Openers.held_from`."""

    @property
    def held(self) -> str:
        """The text that is held back, since it may begin a call."""
        return "" if self._thought else self._text[self._at :] + "".join(self._more)

    @property
    def holds_text(self) -> bool:
        """Whether more than white space is being held back."""
        if self._thought is None and (self._opened or self._waits):
            return True
        return bool(self.held.strip())

    @property
    def calls(self) -> tuple[RecoveredCall, ...]:
        """The calls that are complete in what is held; their places are counted from where that begins."""
        return tuple(call for call in rescue(self.held, self._names).calls if not call.open)

    def feed(self, piece: str) -> list[OutputPiece]:
        """What may now be given out, in order: it stays as it is, whatever follows."""
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
        """Decide on as much of all that came as can be decided."""
        self._text += "".join(self._more)
        self._end = None
        self._more, self._more_length = [], 0
        self._waits = False
        while self._step():
            pass
        self._forget()
        return self._out.take()

    def settle(self) -> list[OutputPiece]:
        """What may be given out of all that has been fed, where `feed` left a decision for later to save time."""
        if not self._waits or self._opened:
            return []
        self._spent = 0
        self._waits = False
        return self.feed("")

    def _may_decide(self, piece: str) -> bool:
        """Whether it is worth to look again at what is held: each look costs its length, and all looks together cost
        no more than a few times the whole text.
        """
        length = len(self._text) - self._at + self._more_length
        if not _CLOSES.search(piece) or self._spent + length > 2 * self._length + 8_000:
            return False
        self._spent += length
        return True

    def _step(self) -> bool:
        """Decide on what comes next; whether there may be more to decide."""
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
        """See `Openers.held_from`; what was found stays true for this text until a place before it was passed."""
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
        """Drop a token, begin a thought, or take back what was thought."""
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
        """Hold what may be a call, or let out what is none."""
        if suspect.plain_to is not None:
            self._say_to(suspect.plain_to)
            return True
        self._opened = suspect.certain
        return self._wait(suspect.begins)

    def _wait(self, begins: int) -> bool:
        """Let out what stands before this place, and hold what comes."""
        self._say_to(max(self._at, begins))
        self._waits = True
        return False

    def _say_to(self, end: int) -> bool:
        """Let out what stands before this place; whether that was anything."""
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
        # Nothing in a thought counts for what follows it: no code fence in it, nor the line it stands on.
        self._text = text[closing.end() :]
        self._end = None
        self._at = self._since = 0
        self._inside = ""
        self._first = False
        self._thought = None
        return True

    def _forget(self) -> None:
        """Drop text that is not needed any more, up to the beginning of a line or to a place in a long one."""
        if self._at < self._forget_at:
            return
        quotes = CodeSpans(self._text, self._inside)
        cut = self._text.rfind("\n", 0, self._at - _KEEP) + 1
        if cut < self._at - 4 * _KEEP:
            cut = max(cut, self._cut_in_line(quotes))
        if cut == 0 and self._at > _LONG_LINE:
            cut = self._at - _KEEP
            self._opened = "`" in self._text[:cut]  # in a line of this length code and text are not told apart
            quotes = CodeSpans(self._text, self._inside)
        if cut:
            self._inside = quotes.fence_at(cut)
            self._text = self._text[cut:]
            self._at -= cut
            self._since -= cut
            self._first = False
        self._forget_at = self._at + 8 * _KEEP

    def _cut_in_line(self, quotes: CodeSpans) -> int:
        """Where the line that is given out may be cut, since no backtick before that place belongs to one behind it; 0
        for nowhere.
        """
        found = _MAY_BE_CUT.search(self._text, self._at - 2 * _KEEP, self._at - _KEEP)
        if not found:
            return 0
        cut = found.start()
        is_plain = not quotes.around(cut) and not quotes.tick_before(cut)
        return cut if is_plain or quotes.fence_at(cut) else 0
