"""One attempt at an answer: one stream gate per choice, with the top-level fields around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails import (
    Accept,
    FinalAnswer,
    GiveUp,
    Outcome,
    Retry,
    StreamGate,
    Turn,
    judge,
    judge_failed_retry,
)
from forge_proxy.core.guardrails.extraction import EXTRACTION_LIMIT, Extraction, estimate_extraction, extract
from forge_proxy.core.guardrails.loops import Loop
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.stream import Chunk, Delta, Reply

_COMMON = ("id", "created", "model", "system_fingerprint")
"""Fields of the head that every chunk carries. The others are sent at the end, for the delivered attempt."""


@dataclass(frozen=True, slots=True)
class FinishedAttempt:
    """The end of a request: the chunks that are still to be sent, and the final answers."""

    chunks: list[Chunk]
    answers: list[FinalAnswer]

    @property
    def is_valid(self) -> bool:
        """Whether the model ended the request: with valid calls, or with text if that was permitted."""
        return all(answer.outcome is not Outcome.EXHAUSTED for answer in self.answers)


class Attempt:
    """Takes the chunks of one attempt, releases what may be sent, and returns the verdict at the end."""

    def __init__(self, turn: Turn, choices: int, after: Attempt | None = None) -> None:
        self._turn = turn
        self.has_reasoning = after is not None and after.has_reasoning
        """Whether reasoning was sent, of this attempt or of an earlier one."""
        self._is_separated = not self.has_reasoning
        self._choices = choices
        self._gates: dict[int, StreamGate] = {}
        """The gates of the choices that have begun, by index. A request may ask for more choices than arrive."""
        self._head: dict[str, Json] = {}
        self._begun = False

    def take(self, chunk: Chunk) -> Chunk | None:
        """Add a chunk and return the chunk that may now be sent, or None.

        The first chunk always yields one, possibly empty, which marks the beginning of the response.
        """
        if chunk.progress is not None:
            return chunk
        first, self._begun = not self._begun, True
        self._head.update(chunk.head)
        if chunk.restarts:
            self._gates = {}
        deltas: list[Delta] = []
        for delta in chunk.deltas:
            gate = self._gate(delta.choice)
            if gate is not None and (out := gate.take(delta)) is not None:
                deltas.append(self._separate(out) if out.reasoning else out)
        if not deltas and not first:
            return None
        return Chunk(tuple(deltas), head={key: chunk.head[key] for key in _COMMON if key in chunk.head})

    @property
    def is_over(self) -> bool:
        """Whether generation can be stopped: each choice that has not finished was cut in a loop or was abandoned for
        lack of its required call.
        """
        over = False
        if len(self._gates) < self._choices:
            return False
        for gate in self._gates.values():
            if gate.is_cut or gate.is_abandoned:
                over = True
            elif not gate.is_finished:
                return False
        return over

    @property
    def loops(self) -> list[Loop]:
        """The loops of all choices."""
        return [loop for gate in self._gates.values() for loop in gate.loops]

    @property
    def sent_text(self) -> str:
        """The text sent so far, of all choices."""
        return "".join(gate.sent_text for gate in self._gates.values())

    def replies(self) -> list[Reply]:
        """Return the replies assembled so far, one per choice."""
        return [gate.reply() for gate in self._existing_gates()]

    def matches_grammar(self, extractions: Sequence[Extraction]) -> bool:
        """Whether a text may have to match the grammar of a tool, which takes long for some grammars."""
        return any(tool.grammar for tool in self._turn.tools) and any(one.calls for one in extractions)

    def judge(self, extractions: Sequence[Extraction]) -> Retry | FinishedAttempt:
        """Return the verdict on the whole attempt, given the extractions from its replies.

        Raises the `ForgeError` of a verdict that gives up without an answer. Several choices are judged one by one and
        never retried, so a `Retry` always concerns a single choice.
        """
        chunks: list[Chunk] = []
        answers: list[FinalAnswer] = []
        for gate, extraction in zip(self._existing_gates(), extractions, strict=True):
            match judge(self._turn, gate.reply(), gate.sent_text, extraction, gate.loops):
                case Retry() as retry:
                    return retry
                case GiveUp(error=ForgeError() as error):
                    raise error
                case Accept(answer) | GiveUp(answer=FinalAnswer() as answer):
                    chunks += [Chunk(tuple(map(self._separate, chunk.deltas))) for chunk in gate.finish(answer)]
                    answers.append(answer)
                case GiveUp():
                    raise AssertionError("a verdict that gives up has an answer or an error")
        return self._finish(chunks, answers)

    def _separate(self, delta: Delta) -> Delta:
        """Separate the first reasoning of this attempt from that of the previous one by a blank line."""
        if not delta.reasoning:
            return delta
        self.has_reasoning = True
        if self._is_separated:
            return delta
        self._is_separated = True
        return replace(delta, reasoning=f"\n\n{delta.reasoning}")

    def rescue(self, written: str) -> FinishedAttempt | None:
        """Recover a call that the backend failed to parse from `written`, the backend's quotation of it.

        Returns None if it contains no valid call, so that the text of an error is never delivered as a response.
        """
        gate = self._gate(0)
        if gate is None or not written or self.sent_text or self._choices > 1:
            return None
        reply = replace(gate.reply(), text=written, finish="stop")
        if estimate_extraction(reply) > EXTRACTION_LIMIT:
            return None
        match judge(self._turn, reply, "", extract(self._turn, reply), ()):
            case Accept(FinalAnswer(calls=[_, *_]) as answer):
                return self._finish(gate.finish(answer), [answer])
            case _:
                return None

    def settle_failed_retry(self) -> FinishedAttempt | None:
        """End the request with the response before this attempt, on which the model server failed.

        Returns None if there is no earlier response, or if part of this attempt was already sent.
        """
        answer = judge_failed_retry(self._turn)
        if answer is None or self.sent_text:
            return None
        return self._finish(StreamGate(self._turn, 0).finish(answer), [answer])

    def _finish(self, chunks: Sequence[Chunk], answers: list[FinalAnswer]) -> FinishedAttempt:
        """Put the head on the last chunk: fields such as timings are only known at the end."""
        return FinishedAttempt([*chunks[:-1], replace(chunks[-1], head=self._head)], answers)

    def _existing_gates(self) -> list[StreamGate]:
        if not self._gates:
            return [StreamGate(self._turn, index) for index in range(self._choices)]
        return [self._gates[index] for index in sorted(self._gates)]

    def _gate(self, choice: int) -> StreamGate | None:
        """Return the gate of a choice, created when the choice begins; None if the client did not request it."""
        gate = self._gates.get(choice)
        if gate is None and 0 <= choice < self._choices:
            gate = self._gates[choice] = StreamGate(self._turn, choice)
        return gate
