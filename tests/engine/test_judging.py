"""Where an attempt is judged: a long response must not block the event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable

import pytest

from forge_proxy.core.chat import ChatRequest, ToolGrammar, ToolSpec
from forge_proxy.core.errors import ToolCallInvalid
from forge_proxy.core.guardrails import GuardPolicy, Retry, Verdict, judge, open_turn
from forge_proxy.core.guardrails.attempt import Attempt, FinishedAttempt
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.judging import judge_attempt
from forge_proxy.engine.pacing import LoopTurns

TOOL = ToolSpec("read", {"type": "object", "properties": {"lines": {"type": "array", "items": {"type": "integer"}}}})


@pytest.fixture
def judging_threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads in which attempts are judged."""
    threads: list[int] = []

    def recorded(*args: object) -> Verdict:
        threads.append(threading.get_ident())
        return _judge(*args)

    _judge: Callable[..., Verdict] = judge
    monkeypatch.setattr("forge_proxy.core.guardrails.attempt.judge", recorded)
    return threads


def attempt(policy: GuardPolicy | None = None, tool: ToolSpec = TOOL) -> Attempt:
    turn = open_turn(ChatRequest({}, tools=(tool,)), policy or GuardPolicy(), request_id="r", nudge_text=True)
    assert turn is not None
    begun = Attempt(turn, 1)
    begun.take(Chunk((Delta(finish="tool_calls"),)))
    return begun


def calls_with(lines: object) -> list[Extraction]:
    return [Extraction("", (ToolCall("read", json.dumps({"lines": lines}), "c1"),))]


async def test_a_call_with_long_arguments_is_judged_beside_the_event_loop(judging_threads: list[int]) -> None:
    verdict = await judge_attempt(attempt(), calls_with(["x"] * 5_000), LoopTurns())

    assert isinstance(verdict, Retry)
    assert judging_threads != [threading.get_ident()]


async def test_a_call_of_a_tool_with_a_grammar_is_judged_beside_the_event_loop(judging_threads: list[int]) -> None:
    tool = ToolSpec("run", grammar=ToolGrammar("regex", "a+", argument="code"))
    called = [Extraction("", (ToolCall("run", '{"code": "aa"}', "c1"),))]

    assert isinstance(await judge_attempt(attempt(tool=tool), called, LoopTurns()), FinishedAttempt)
    assert judging_threads != [threading.get_ident()]


async def test_a_long_text_is_judged_beside_the_event_loop(judging_threads: list[int]) -> None:
    verdict = await judge_attempt(attempt(), [Extraction("word " * 10_000, ())], LoopTurns())

    assert isinstance(verdict, Retry)
    assert judging_threads != [threading.get_ident()]


async def test_a_usual_call_is_judged_at_once_on_the_event_loop(judging_threads: list[int]) -> None:
    verdict = await judge_attempt(attempt(), calls_with([1, 2]), LoopTurns())

    assert isinstance(verdict, FinishedAttempt)
    assert judging_threads == [threading.get_ident()]


async def test_the_error_of_a_verdict_leaves_the_thread() -> None:
    policy = GuardPolicy(max_retries=0, on_exhausted="error")

    with pytest.raises(ToolCallInvalid):
        await judge_attempt(attempt(policy), calls_with(["x"] * 5_000), LoopTurns())


async def test_long_responses_are_judged_one_at_a_time(judging_threads: list[int]) -> None:
    turns = LoopTurns()

    await asyncio.gather(*(judge_attempt(attempt(), calls_with(["x"] * 5_000), turns) for _ in range(4)))

    assert len(judging_threads) == 4
    assert len(set(judging_threads)) == 1
