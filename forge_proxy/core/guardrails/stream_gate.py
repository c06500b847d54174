"""What of an attempt may leave while the model is still writing it: the release rule (DESIGN §5), and its only place.

Reasoning leaves at once. Text leaves at once when it will not be asked again, but for an end that may begin a call. The
message of our own tool leaves as it is decoded. Everything else waits for the verdict. An answer that only repeats
itself ends where that is certain. What has left in all depends on the model's answer only, never on how its bytes were
cut.
"""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from forge_proxy.core.fields import FieldsBuilder
from forge_proxy.core.guardrails.loops import Loop, LoopWatch
from forge_proxy.core.guardrails.respond import MessageDecoder
from forge_proxy.core.guardrails.turn import Turn
from forge_proxy.core.guardrails.verdict import FinalAnswer
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.rescue import OutputPiece, PieceKind, StreamingParser
from forge_proxy.core.stream import THOUGHTS, CallDelta, Chunk, Delta, Reply, ReplyBuilder

_WANDERS = 16_000
"""Characters of plain text, some 4,000 tokens, after which no call is waited for where one is demanded: a model server
may keep the model from ending. Models that think before they call may do that in plain text, so it is not fewer.
"""


_LONGEST_NAME = 1_000
"""Characters of the name of a call that may be one of our own tool: a name may come a character at a time."""
_WAITING = frozenset({"role", THOUGHTS})
"""Fields that do not leave at once: who speaks is told once, and signed thoughts are those of the delivered attempt."""


class StreamGate:
    """Takes the deltas of one choice of one attempt, gives out what may leave, and knows what has left."""

    def __init__(self, turn: Turn, choice: int = 0) -> None:
        self._choice = choice
        self._builder = ReplyBuilder(choice)
        self._live = not turn.text_waits
        self._live_after_thought = not turn.text_may_be_asked_again
        self._demands = turn.demands_call
        self._plain = 0
        """Characters of text so far that belong to no call, where a call is demanded."""
        self.wanders = False
        """Whether the answer is not worth waiting for: a call is demanded, and it goes on and on without one."""
        rescues = turn.policy.enabled.rescue
        self._scan = StreamingParser(turn.callable_names, template_thinks=not self._live) if rescues else None
        self._withheld = StringIO()
        """Text that waits for the verdict: should it turn out to be thought, it leaves as such."""
        self._thought = StringIO()
        """What has left of the text as thought."""
        self._is_respond = turn.is_respond
        self._decoder: MessageDecoder | None = None
        self._spoken = False
        """Whether a message of our own tool has begun to leave: text that comes after it waits."""
        self._begins_with_respond = False
        """Whether the first call is one of our own tool."""
        self._names: dict[int, str] = {}
        self._holds_text = False
        self._left = StringIO()
        self._beside = FieldsBuilder()
        self._watches = (LoopWatch("text"), LoopWatch("reasoning")) if turn.policy.enabled.loops else ()
        self._cuts = turn.policy.on_loop == "cut"
        self.is_cut = False
        """Whether the answer was ended because of a loop: what comes after it is not taken in."""
        self.is_finished = False
        """Whether the model server has said that this choice is complete."""

    @property
    def loops(self) -> tuple[Loop, ...]:
        """What only repeats itself. The arguments of calls are not looked at: a file may do that."""
        return tuple(watch.loop for watch in self._watches if watch.loop)

    @property
    def left(self) -> str:
        """The text that has left so far."""
        return self._left.getvalue()

    def take(self, delta: Delta) -> Delta | None:
        """Take in a delta; what may leave because of it, None for nothing."""
        if self.is_cut:
            return None
        self.is_finished = self.is_finished or delta.finish is not None
        if delta.reasoning and (kept := self._until_loop(delta.reasoning, thought=True)) is not delta.reasoning:
            delta = replace(delta, reasoning=kept)
        text, thought = self._release_text(delta.text) if delta.text and not self.is_cut else ("", "")
        if delta.calls and self._scan and not self._names and not self.is_cut:
            # What the text before a call holds must not depend on when it was looked at.
            more = self._sort(self._scan.settle())
            text, thought = text + more[0], thought + more[1]
        taken = 0
        while taken < len(delta.calls) and not self.is_cut:
            text += self._release_message(delta.calls[taken])
            taken += 1
        if self.is_cut:  # in a stream, the rest of this delta would have come later
            delta = replace(delta, calls=delta.calls[:taken], finish=None, extra={}, beside={})
        self._builder.add(delta)
        if thought:
            self._thought.write(thought)
        reasoning = (delta.reasoning or "") + thought if delta.reasoning or thought else delta.reasoning
        extra = (
            {key: value for key, value in delta.extra.items() if key not in _WAITING} if delta.extra else delta.extra
        )
        if text:
            self._left.write(text)
        beside: JsonObject = delta.beside
        if beside and not self._live:  # held with the text it belongs to
            self._beside.add(beside)
            beside = {}
        if not (text or reasoning or extra or beside):
            return None
        return Delta(self._choice, text or None, reasoning, extra=extra, beside=beside)

    def reply(self) -> Reply:
        """The whole reply as far as it was taken in. One that was cut ends early, as at a limit of tokens; of one that
        wanders there is no more than it took to see that.
        """
        reply = self._builder.reply()
        if self.is_cut:
            return replace(reply, text=self._text_before_cut(reply.text), finish="length")
        if self.wanders:
            return replace(reply, text=(reply.text or "")[:_WANDERS], calls=(), finish="length")
        return reply

    def rest(self, settled: FinalAnswer) -> list[Chunk]:
        """What of the final answer has not left yet, ending with its finish reason."""
        deltas: list[Delta] = []
        if thought := _beyond(settled.thought, self._thought.getvalue()):
            deltas.append(Delta(reasoning=thought))
        if signed := self._builder.reply().extra.get(THOUGHTS):
            deltas.append(Delta(extra={THOUGHTS: signed}))
        text = (settled.text or "").removeprefix(self.left)
        if text or (settled.text is not None and not self._left.tell()):
            deltas.append(Delta(text=text))
        for index, call in enumerate(settled.calls):
            deltas.append(Delta(calls=(CallDelta(index, call.id, call.tool, call.arguments),)))
        deltas.append(Delta(finish=settled.finish))
        if self._beside and self._is_as_written(settled):
            deltas[0] = replace(deltas[0], beside=self._beside.fields())
        return [Chunk((replace(delta, choice=self._choice),)) for delta in deltas]

    def _is_as_written(self, settled: FinalAnswer) -> bool:
        """Whether the answer is what the model wrote, token by token: only then what stood beside it belongs to it."""
        reply = self._builder.reply()
        written = [(call.tool, call.arguments) for call in reply.calls]
        return settled.text == reply.text and [(call.tool, call.arguments) for call in settled.calls] == written

    def _release_text(self, text: str) -> tuple[str, str]:
        """What leaves as text, and what as thought."""
        if self._scan is None:
            self._count(text)
        if self._spoken or (self._scan is None and not self._live):
            self._holds_text = self._holds_text or not text.isspace()
            self._until_loop(text)
            return "", ""
        return self._sort(self._scan.feed(text)) if self._scan else (self._until_loop(text), "")

    def _sort(self, pieces: list[OutputPiece]) -> tuple[str, str]:
        """What leaves of released pieces, as text and as thought."""
        text: list[str] = []
        thought: list[str] = []
        for piece in pieces:
            if self.is_cut:
                break
            match piece.kind:
                case PieceKind.TEXT:
                    kept = self._until_loop(piece.text)
                    if self._live:
                        text.append(kept)
                    else:
                        self._withheld.write(kept)
                    self._count(piece.text)
                case PieceKind.THOUGHT:
                    thought.append(self._until_loop(piece.text, thought=True))
                case PieceKind.RECALL:
                    thought.append(self._withheld.getvalue())
                    self._withheld = StringIO()
                    self._live = self._live_after_thought
                    self._forget_text()
                    self._plain = 0
        self._holds_text = bool(self._withheld.tell()) or (self._scan is not None and self._scan.holds_text)
        return "".join(text), "".join(thought)

    def _count(self, text: str) -> None:
        if self._demands and not self._names:
            self._plain += len(text)
            self.wanders = self.wanders or self._plain > _WANDERS

    def _release_message(self, piece: CallDelta) -> str:
        """What a piece of a call adds to the text: nothing, unless it is our own tool's message and stands first."""
        name = self._names.get(piece.index, "")
        if piece.name and piece.name != name:
            name = self._names[piece.index] = name + piece.name
            if piece.index == next(iter(self._names)):
                self._begins_with_respond = len(name) <= _LONGEST_NAME and self._is_respond(name)
        is_first = piece.index == next(iter(self._names), None)
        if not (is_first and self._begins_with_respond) or (self._holds_text and not self._spoken):
            return ""
        self._decoder = self._decoder or MessageDecoder()
        message = self._decoder.feed(piece.arguments)
        if not message:
            return ""
        # Text that left before stands on lines of its own, as `judge` puts it.
        separator = "\n" if self._left.tell() and not self._spoken else ""
        self._spoken = True
        return self._until_loop(separator + message)

    def _until_loop(self, piece: str, *, thought: bool = False) -> str:
        """What of this piece is taken: all of it, unless it is where the answer is cut."""
        if not self._watches:
            return piece
        watch = self._watches[thought]
        kept = watch.take(piece)
        if not self._cuts:
            return piece
        self.is_cut = watch.loop is not None
        return kept

    def _forget_text(self) -> None:
        """The text so far was thought: what is text begins here."""
        if self._watches:
            self._watches = (LoopWatch("text"), self._watches[1])

    def _text_before_cut(self, text: str | None) -> str | None:
        """The text of an answer that was cut: what has left, else what was held, its loop shortened."""
        if self._left.tell() or self._live:
            return self.left or None
        held = self._withheld.getvalue() if self._scan else text or ""
        loop = self._watches[False].loop
        return (held[: loop.shown_to] if loop else held) or None


def _beyond(whole: str, told: str) -> str:
    """What of a thought has not been told yet, white space aside; nothing where something else was told."""
    if not told.strip():
        return whole
    at = 0
    for word in told.split():
        found = whole.find(word, at)
        if found < 0 or whole[at:found].strip():
            return ""
        at = found + len(word)
    return whole[at:].lstrip()
