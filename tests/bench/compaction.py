"""Measures the compaction of a history of 200 messages in this process, which blocks the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from statistics import median

from forge_proxy.core.compaction import SlidingWindowCompact, TieredCompact
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import Message, MessageType, ToolCall
from forge_proxy.wire.compaction import apply_cuts, classify_messages

MESSAGES = 200
_RESULT = "supplier: Acme; price: 10.69; stock: 120\n" * 50
_THOUGHT = "The price is below that of the web, but above what was paid before. " * 3
_ROUNDS = 50


def _history() -> tuple[Message, ...]:
    """The history of a workflow: reasoning, a call and its result in each iteration, a correction in some."""
    out = [Message.of(MessageType.SYSTEM_PROMPT, "You audit."), Message.of(MessageType.USER_INPUT, "Audit them all.")]
    step = 0
    while len(out) < MESSAGES:
        call = ToolCall("look_up", f'{{"supplier": {step}}}', f"call_{step}")
        kind = MessageType.STEP_NUDGE if step % 5 == 4 else MessageType.TOOL_RESULT
        made = [Message.of(MessageType.REASONING, _THOUGHT), Message.of(MessageType.TOOL_CALL, calls=(call,))]
        out += [message.at(step) for message in (*made, Message.of(kind, _RESULT, answers=call))]
        step += 1
    return tuple(out[:MESSAGES])


def compaction_times(times: int) -> Generator[tuple[str, float]]:
    """Return the operation, and the median of its seconds over many rounds."""
    history = _history()
    rounds = times * _ROUNDS
    yield "tiered, phase 1 is enough", _seconds(lambda: TieredCompact().compact(history, 10**9), rounds)
    yield "tiered, as far as it goes", _seconds(lambda: TieredCompact().compact(history, 0), rounds)
    yield "sliding window", _seconds(lambda: SlidingWindowCompact().compact(history, 0), rounds)


def request_time(times: int) -> float:
    """Return the seconds to classify, plan and cut a client's messages."""
    asked: list[Json] = [message.to_api_dict() for message in _history()]

    def shorten() -> None:
        tags = classify_messages(asked)
        *_, last = TieredCompact().plans(tags.messages)
        apply_cuts(asked, tags, last.cuts)

    return _seconds(shorten, times * _ROUNDS)


def _seconds(run: Callable[[], object], rounds: int) -> float:
    took: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        took.append(time.perf_counter() - began)
    return median(took)
