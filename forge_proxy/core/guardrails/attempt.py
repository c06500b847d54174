"""One attempt at an answer: a gate for each choice, and what surrounds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails import Accept, FinalAnswer, GiveUp, Retry, StreamGate, Turn, judge, judge_failed_retry
from forge_proxy.core.guardrails.extraction import EXTRACTION_LIMIT, Extraction, estimate_extraction, read
from forge_proxy.core.guardrails.loops import Loop
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.stream import Chunk, Delta, Reply

_COMMON = ("id", "created", "model", "system_fingerprint")
"""Fields of the head that every chunk carries; the others are told at the end, for the attempt that is delivered."""


@dataclass(frozen=True, slots=True)
class FinishedAttempt:
    """The end of a request: what has not left yet, and the answers."""

    chunks: list[Chunk]
    answers: list[FinalAnswer]


class Attempt:
    """Takes the chunks of one attempt, gives out what may leave, and is judged at the end."""

    def __init__(self, turn: Turn, choices: int, after: Attempt | None = None) -> None:
        self._turn = turn
        self.has_thought = after is not None and after.has_thought
        """Whether reasoning has left, of this attempt or of those before it."""
        self._stands_apart = not self.has_thought
        self._choices = choices
        self._gates: dict[int, StreamGate] = {}
        """Of the choices that have begun, by their places: many may be asked for, and few come."""
        self._head: dict[str, Json] = {}
        self._begun = False
        self.usage: JsonObject | None = None
        """As last told: some servers tell the sum so far with each chunk."""

    def take(self, chunk: Chunk) -> Chunk | None:
        """What may leave because of this chunk; the first one always does, empty, to say that the answer has begun."""
        if chunk.progress is not None:
            return chunk
        first, self._begun = not self._begun, True
        self._head.update(chunk.head)
        self.usage = chunk.usage or self.usage
        if chunk.anew:
            self._gates = {}
        deltas: list[Delta] = []
        for delta in chunk.deltas:
            gate = self._gate(delta.choice)
            if gate is not None and (out := gate.take(delta)) is not None:
                deltas.append(self._apart(out) if out.reasoning else out)
        if not deltas and not first:
            return None
        return Chunk(tuple(deltas), head={key: chunk.head[key] for key in _COMMON if key in chunk.head})

    @property
    def is_over(self) -> bool:
        """Whether nothing that may still come is of use to anybody: of the choices that have not ended, each was cut in
        a loop or goes on without the call that is demanded.
        """
        over = False
        if len(self._gates) < self._choices:
            return False
        for gate in self._gates.values():
            if gate.is_cut or gate.wanders:
                over = True
            elif not gate.is_finished:
                return False
        return over

    @property
    def loops(self) -> list[Loop]:
        """The loops of all choices."""
        return [loop for gate in self._gates.values() for loop in gate.loops]

    @property
    def left(self) -> str:
        """Text that has left already, of any choice."""
        return "".join(gate.left for gate in self._gates.values())

    def replies(self) -> list[Reply]:
        """The replies to the choices that there are, as far as they were taken in."""
        return [gate.reply() for gate in self._answered()]

    def judge(self, readings: Sequence[Extraction]) -> Retry | FinishedAttempt:
        """The verdict on the whole attempt, given what was read in its replies. Raises the error that the budget
        ended in.

        Several choices are each judged by themselves and none is asked again, so `Retry` is only ever of a single one.
        """
        chunks: list[Chunk] = []
        answers: list[FinalAnswer] = []
        for gate, reading in zip(self._answered(), readings, strict=True):
            match judge(self._turn, gate.reply(), gate.left, reading, gate.loops):
                case Retry() as retry:
                    return retry
                case GiveUp(error=ForgeError() as error):
                    raise error
                case Accept(settled) | GiveUp(settled=FinalAnswer() as settled):
                    chunks += [Chunk(tuple(map(self._apart, chunk.deltas))) for chunk in gate.rest(settled)]
                    answers.append(settled)
                case GiveUp():
                    raise AssertionError("a verdict that gives up has an answer or an error")
        chunks[-1] = replace(chunks[-1], head=self._head)  # timings and the like, which are known at the end
        return FinishedAttempt(chunks, answers)

    def _apart(self, delta: Delta) -> Delta:
        """The delta, the first reasoning of an attempt set apart from that of the one before."""
        if not delta.reasoning:
            return delta
        self.has_thought = True
        if self._stands_apart:
            return delta
        self._stands_apart = True
        return replace(delta, reasoning=f"\n\n{delta.reasoning}")

    def rescue(self, written: str) -> FinishedAttempt | None:
        """The end of the request, where a call that the backend could not read can be read here: `written` is what it
        quotes of it. Never what is no call: the words of an error are not shown as text.
        """
        gate = self._gate(0)
        if gate is None or not written or self.left or self._choices > 1:
            return None
        reply = replace(gate.reply(), text=written, finish="stop")
        if estimate_extraction(reply) > EXTRACTION_LIMIT:
            return None
        match judge(self._turn, reply, "", read(self._turn, reply), ()):
            case Accept(FinalAnswer(calls=[_, *_]) as settled):
                chunks = gate.rest(settled)
                return FinishedAttempt([*chunks[:-1], replace(chunks[-1], head=self._head)], [settled])
            case _:
                return None

    def settle_failed_retry(self) -> FinishedAttempt | None:
        """The end of the request with the response before this attempt, on which the model server failed; None if there
        is none to deliver, or if some of this one has left already.
        """
        settled = judge_failed_retry(self._turn)
        if settled is None or self.left:
            return None
        chunks = StreamGate(self._turn, 0).rest(settled)
        return FinishedAttempt([*chunks[:-1], replace(chunks[-1], head=self._head)], [settled])

    def _answered(self) -> list[StreamGate]:
        if not self._gates:
            return [StreamGate(self._turn, index) for index in range(self._choices)]
        return [self._gates[index] for index in sorted(self._gates)]

    def _gate(self, choice: int) -> StreamGate | None:
        """The gate of a choice, made when it begins; None for one that was not asked for."""
        gate = self._gates.get(choice)
        if gate is None and 0 <= choice < self._choices:
            gate = self._gates[choice] = StreamGate(self._turn, choice)
        return gate
