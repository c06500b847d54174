"""The release rule (decision 2): which parts of an attempt are sent to the client while the model is still generating.

- Reasoning is sent immediately.
- Text is sent immediately if it will not be retried, except for a suffix that may begin a call.
- The message of the respond tool is sent as it is decoded.
- Everything else is buffered until the verdict.
- A response that only repeats itself is cut as soon as the loop is certain.

The total output depends only on the model's response, never on how its bytes were split into chunks.
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
from forge_proxy.core.logprobs import LogProbs, LogProbsBuilder
from forge_proxy.core.rescue import OutputPiece, PieceKind, StreamingParser
from forge_proxy.core.stream import SIGNED_REASONING, CallDelta, Chunk, Delta, Reply, ReplyBuilder

_MAX_TEXT_BEFORE_CALL = 16_000
"""Characters of plain text, about 4,000 tokens, after which an attempt without its required call is abandoned: a model
server may prevent the model from ending. The limit is not lower because some models reason in plain text before a call.
"""


_LONGEST_NAME = 1_000
"""Maximum characters of a call's name that is matched with the respond tool: names may arrive a character at a time."""
_BUFFERED_FIELDS = frozenset({"role", SIGNED_REASONING})
"""Fields that are not sent immediately: the role is sent once, and signed reasoning only of the delivered attempt."""


class StreamGate:
    """Takes the deltas of one choice of one attempt, releases what may be sent, and keeps track of what was sent."""

    def __init__(self, turn: Turn, choice: int = 0) -> None:
        self._choice = choice
        self._builder = ReplyBuilder(choice)
        self._turn = turn
        self._live = not turn.buffers_text
        self._may_end: bool | None = None
        """Whether a final answer may be sent before the verdict; None before it begins."""
        self._live_after_sent_reasoning = not turn.may_retry_text
        self._requires_call = turn.requires_call
        self._plain_length = 0
        """Characters of text so far that belong to no call. Counted only if a call is required."""
        self.is_abandoned = False
        """Whether the attempt is abandoned: a call is required and the text has become too long without one."""
        rescues = turn.policy.enabled.rescue
        names, thinks = turn.callable_names, not self._live
        self._parser = StreamingParser(names, template_thinks=thinks, form=turn.form) if rescues else None
        self._buffered_text = StringIO()
        """Text buffered until the verdict. If it turns out to be reasoning, it is sent as reasoning."""
        self._sent_reasoning = StringIO()
        """The part of the text that was sent as reasoning."""
        self._is_respond = turn.is_respond
        self._decoder: MessageDecoder | None = None
        self._has_sent_message = False
        """Whether part of a respond tool's message was sent. Text that follows it is buffered."""
        self._begins_with_respond = False
        """Whether the first call is one of the respond tool."""
        self._names: dict[int, str] = {}
        self._unnamed: set[int] = set()
        """Calls whose arguments began before their names: their messages are not sent before the reply is complete."""
        self._has_buffered_text = False
        self._ends_in_text = turn.ends_in_text
        self._sent_text = StringIO()
        self._choice_fields = FieldsBuilder()
        self._logprobs = LogProbsBuilder()
        self._watches = (LoopWatch("text"), LoopWatch("reasoning")) if turn.policy.enabled.loops else ()
        self._cuts = turn.policy.on_loop == "cut"
        self.is_cut = False
        """Whether the response was cut because of a loop. Later deltas are ignored."""
        self.is_finished = False
        """Whether the model server has sent a finish reason for this choice."""

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The detected loops. Arguments of calls are not checked: a file may legitimately repeat itself."""
        return tuple(watch.loop for watch in self._watches if watch.loop)

    @property
    def sent_text(self) -> str:
        """The text sent so far."""
        return self._sent_text.getvalue()

    def take(self, delta: Delta) -> Delta | None:
        """Add a delta and return the delta that may now be sent; None for nothing."""
        if self.is_cut:
            return None
        self.is_finished = self.is_finished or delta.finish is not None
        if delta.reasoning and (kept := self._until_loop(delta.reasoning, is_reasoning=True)) is not delta.reasoning:
            delta = replace(delta, reasoning=kept)
        text, text_reasoning = self._release_text(delta.text) if delta.text and not self.is_cut else ("", "")
        if delta.calls and self._parser and not self._names and not self.is_cut:
            # The text before a call must not depend on how the stream was split into deltas.
            more = self._sort(self._parser.decide_postponed())
            text, text_reasoning = text + more[0], text_reasoning + more[1]
        call_count = 0
        while call_count < len(delta.calls) and not self.is_cut:
            text += self._release_message(delta.calls[call_count])
            call_count += 1
        if self.is_cut:  # split into smaller deltas, the rest of this delta would have come later
            delta = replace(
                delta, calls=delta.calls[:call_count], finish=None, extra={}, choice_fields={}, logprobs=None
            )
        self._builder.add(delta if delta.logprobs is None else replace(delta, logprobs=None))  # buffered once, below
        if text_reasoning:
            self._sent_reasoning.write(text_reasoning)
        reasoning = (delta.reasoning or "") + text_reasoning if delta.reasoning or text_reasoning else delta.reasoning
        extra = (
            {key: value for key, value in delta.extra.items() if key not in _BUFFERED_FIELDS}
            if delta.extra
            else delta.extra
        )
        if text:
            self._sent_text.write(text)
        choice_fields: JsonObject = delta.choice_fields
        if choice_fields and not self._live:  # buffered together with the text that it belongs to
            self._choice_fields.add(choice_fields)
            choice_fields = {}
        logprobs: LogProbs | None = delta.logprobs
        if logprobs is not None and not self._live:
            self._logprobs.add(logprobs)
            logprobs = None
        if not (text or reasoning or extra or choice_fields or logprobs is not None):
            return None
        return Delta(self._choice, text or None, reasoning, extra=extra, choice_fields=choice_fields, logprobs=logprobs)

    def reply(self) -> Reply:
        """Return the reply assembled so far.

        A reply cut in a loop ends early, with finish reason `length`; an abandoned one is truncated at the limit.
        """
        reply = self._builder.reply()
        if self.is_cut:
            return replace(reply, text=self._text_before_cut(reply.text), finish="length")
        if self.is_abandoned:
            return replace(reply, text=(reply.text or "")[:_MAX_TEXT_BEFORE_CALL], calls=(), finish="length")
        return reply

    def finish(self, answer: FinalAnswer) -> list[Chunk]:
        """Return the unsent part of the final answer, ending with its finish reason."""
        deltas: list[Delta] = []
        if text_reasoning := _unsent_reasoning(answer.reasoning, self._sent_reasoning.getvalue()):
            deltas.append(Delta(reasoning=text_reasoning))
        if signed := self._builder.reply().extra.get(SIGNED_REASONING):
            deltas.append(Delta(extra={SIGNED_REASONING: signed}))
        text = (answer.text or "").removeprefix(self.sent_text)
        if text or (answer.text is not None and not self._sent_text.tell()):
            deltas.append(Delta(text=text))
        for index, call in enumerate(answer.calls):
            deltas.append(Delta(calls=(CallDelta(index, call.id, call.tool, call.arguments),)))
        deltas.append(Delta(finish=answer.finish))
        logprobs = self._logprobs.logprobs()
        if (self._choice_fields or logprobs is not None) and self._is_as_written(answer):
            deltas[0] = replace(deltas[0], choice_fields=self._choice_fields.fields(), logprobs=logprobs)
        return [Chunk((replace(delta, choice=self._choice),)) for delta in deltas]

    def _is_as_written(self, answer: FinalAnswer) -> bool:
        """Whether the answer equals the model's output token by token; only then do its logprobs apply."""
        reply = self._builder.reply()
        generated = [(call.tool, call.arguments) for call in reply.calls]
        return answer.text == reply.text and [(call.tool, call.arguments) for call in answer.calls] == generated

    def _release_text(self, text: str) -> tuple[str, str]:
        """Return what may be sent of `text`, as text and as reasoning."""
        if self._parser is None:
            self._count(text)
        if self._live and self._ends_in_text and not (self._may_end or self._may_end_now()):
            self._live = self._live_after_sent_reasoning = False
        if self._has_sent_message or (self._parser is None and not self._live):
            self._has_buffered_text = self._has_buffered_text or not text.isspace()
            self._until_loop(text)
            return "", ""
        return self._sort(self._parser.feed(text)) if self._parser else (self._until_loop(text), "")

    def _sort(self, pieces: list[OutputPiece]) -> tuple[str, str]:
        """Return what may be sent of the parser's pieces, as text and as reasoning."""
        text: list[str] = []
        text_reasoning: list[str] = []
        for piece in pieces:
            if self.is_cut:
                break
            match piece.kind:
                case PieceKind.TEXT:
                    kept = self._until_loop(piece.text)
                    if self._live:
                        text.append(kept)
                    else:
                        self._buffered_text.write(kept)
                    self._count(piece.text)
                case PieceKind.REASONING:
                    text_reasoning.append(self._until_loop(piece.text, is_reasoning=True))
                case PieceKind.RECLASSIFIED:
                    text_reasoning.append(self._buffered_text.getvalue())
                    self._buffered_text = StringIO()
                    self._live = self._live_after_sent_reasoning
                    self._forget_text()
                    self._plain_length = 0
        self._has_buffered_text = bool(self._buffered_text.tell()) or (
            self._parser is not None and self._parser.has_buffered_text
        )
        return "".join(text), "".join(text_reasoning)

    def _may_end_now(self) -> bool:
        """Whether a final answer may be sent now. It is buffered if the user asked for tools that were not called, or
        if it is compared with the results of tools.
        """
        if self._may_end is None:
            self._may_end = self._turn.find_unfinished() is None and not self._turn.buffers_answer
        return self._may_end

    def _count(self, text: str) -> None:
        if self._requires_call and not self._names:
            self._plain_length += len(text)
            self.is_abandoned = self.is_abandoned or self._plain_length > _MAX_TEXT_BEFORE_CALL

    def _release_message(self, piece: CallDelta) -> str:
        """Return the text of a call's piece: empty unless the call is the first one and calls the respond tool."""
        name = self._names.get(piece.index, "")
        if piece.arguments and not (name or piece.name):
            self._unnamed.add(piece.index)
        if piece.name and piece.name != name:
            name = self._names[piece.index] = name + piece.name
            if piece.index == next(iter(self._names)):
                self._begins_with_respond = len(name) <= _LONGEST_NAME and self._is_respond(name)
        is_first = piece.index == next(iter(self._names), None)
        if piece.index in self._unnamed:
            return ""
        if not (is_first and self._begins_with_respond) or (self._has_buffered_text and not self._has_sent_message):
            return ""
        if not self._may_end_now():
            return ""
        self._decoder = self._decoder or MessageDecoder()
        message = self._decoder.feed(piece.arguments)
        if not message:
            return ""
        # Text sent before the message gets its own line, as in `judge`.
        separator = "\n" if self._sent_text.tell() and not self._has_sent_message else ""
        self._has_sent_message = True
        return self._until_loop(separator + message)

    def _until_loop(self, piece: str, *, is_reasoning: bool = False) -> str:
        """Return `piece`, or its beginning if the response is cut in it because of a loop."""
        if not self._watches:
            return piece
        watch = self._watches[is_reasoning]
        kept = watch.take(piece)
        if not self._cuts:
            return piece
        self.is_cut = watch.loop is not None
        return kept

    def _forget_text(self) -> None:
        """Reset the loop detection for text: the text so far turned out to be reasoning."""
        if self._watches:
            self._watches = (LoopWatch("text"), self._watches[1])

    def _text_before_cut(self, text: str | None) -> str | None:
        """Return the text of a response cut in a loop: what was sent, otherwise the buffered text up to the loop."""
        if self._sent_text.tell() or self._live:
            return self.sent_text or None
        buffered = self._buffered_text.getvalue() if self._parser else text or ""
        loop = self._watches[False].loop
        return (buffered[: loop.cut_at] if loop else buffered) or None


def _unsent_reasoning(whole: str, sent: str) -> str:
    """Return the part of `whole` after `sent`, ignoring whitespace; empty if `sent` is not a prefix of it."""
    if not sent.strip():
        return whole
    at = 0
    for word in sent.split():
        found = whole.find(word, at)
        if found < 0 or whole[at:found].strip():
            return ""
        at = found + len(word)
    return whole[at:].lstrip()
