"""The process pool, with real processes: results, processes that are ended, and refused work."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest

from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.guardrails import GuardPolicy, Turn, open_turn
from forge_proxy.core.guardrails.extraction import extract
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.logprobs import LogProbs
from forge_proxy.core.stream import Reply
from forge_proxy.engine.process_pool import ProcessPool
from tests.fakes.processes import children, has_ended
from tests.fakes.work import chatter, fail, spin

SECONDS = 60.0
"""Time limit of work in tests that do not test the limit."""


async def test_the_pool_returns_the_same_extraction_as_this_process() -> None:
    said = 'Look: <tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
    reply = Reply(text=said, reasoning="Hm.", finish="stop", logprobs=LogProbs({"content": b'{"token":"Look"}'}))

    async with open_pool() as pool:
        reading = await pool.read(turn(), reply)

    assert reading
    assert reading == extract(turn(), reply, thorough=True)
    assert reading.calls[0].args() == {"city": "Oslo"}


async def test_the_conversation_stays_here() -> None:
    conversation: JsonObject = {"role": "user", "content": "x" * 1_000_000}
    sent: list[bytes] = []

    async with open_pool() as pool:
        pool.run = partial(_keep, sent)  # pyright: ignore[reportAttributeAccessIssue]
        await pool.read(replace(turn(), messages=(conversation,)), Reply(text="Hello."))

    assert len(sent[0]) < 100_000


async def _keep(sent: list[bytes], work: Callable[[], object]) -> None:
    sent.append(pickle.dumps(work))


async def test_one_process_does_one_thing_after_another() -> None:
    async with open_pool() as pool:
        first = await pool.run(os.getpid)
        again = await pool.run(os.getpid)

    assert first == again
    assert first != os.getpid()


async def test_what_never_ends_is_ended_and_the_next_one_is_done() -> None:
    before = processes()
    async with open_pool(processes=1, seconds=3) as pool:  # enough for the next one, which has to start a process
        spun = await pool.run(spin)
        left = processes() - before
        following = await pool.run(partial(max, 1, 2))

    assert spun is None
    assert left == set()
    assert following == 2


async def test_cancelling_a_task_kills_its_process() -> None:
    before = processes()
    async with open_pool() as pool:
        asked = asyncio.create_task(pool.run(spin))
        (pid,) = await eventually(lambda: processes() - before)

        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

        assert has_ended(pid)
        assert await pool.run(partial(max, 1, 2)) == 2


async def test_more_than_may_wait_is_refused_at_once() -> None:
    async with open_pool(processes=1) as pool:
        asked = [asyncio.create_task(pool.run(spin)) for _ in range(9)]
        await asyncio.sleep(0)

        refused = await pool.run(os.getpid)

        assert refused is None
        assert not any(task.done() for task in asked)
        await pool.close()
        assert await asyncio.gather(*asked) == [None] * 9


async def test_a_process_that_is_killed_at_work_gives_nothing_and_is_replaced() -> None:
    before = processes()
    async with open_pool() as pool:
        asked = asyncio.create_task(pool.run(spin))
        (pid,) = await eventually(lambda: processes() - before)

        os.kill(pid, signal.SIGKILL)

        assert await asked is None
        assert await pool.run(os.getpid) not in (None, pid)


async def test_a_process_that_is_killed_at_rest_is_replaced() -> None:
    async with open_pool() as pool:
        pid = await pool.run(os.getpid)
        assert pid is not None

        os.kill(pid, signal.SIGKILL)

        async with asyncio.timeout(SECONDS):
            while (following := await pool.run(os.getpid)) is None:  # at first it may not be known yet
                pass
        assert following != pid


async def test_signals_for_the_daemon_do_not_end_its_processes() -> None:
    async with open_pool() as pool:
        pid = await pool.run(os.getpid)
        assert pid is not None

        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)

        assert await pool.run(os.getpid) == pid
        assert os.getsid(pid) == pid


async def test_work_that_fails_gives_nothing_and_tells_nobody_what_it_was_about(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with open_pool() as pool:
        failed = await pool.run(partial(fail, "what a model wrote"))

    assert failed is None
    printed = capfd.readouterr().err
    assert "ValueError at " in printed
    assert "what a model wrote" not in printed


async def test_what_is_printed_does_not_get_among_the_answers(capfd: pytest.CaptureFixture[str]) -> None:
    async with open_pool() as pool:
        assert await pool.run(chatter) == "done"
        assert await pool.run(partial(max, 1, 2)) == 2
    assert capfd.readouterr().out == ""


async def test_what_nests_too_deeply_to_travel_is_not_done() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]

    async with open_pool() as pool:
        assert await pool.run(partial(len, deep)) is None
        assert await pool.run(partial(max, 1, 2)) == 2


async def test_an_idle_process_does_not_stay() -> None:
    async with open_pool(idle_seconds=0) as pool:
        pid = await pool.run(os.getpid)
        assert pid is not None

        await eventually(lambda: has_ended(pid))

        assert await pool.run(os.getpid) not in (None, pid)


async def test_a_closed_pool_has_no_process_and_accepts_no_work() -> None:
    before = processes()
    async with open_pool() as pool:
        await pool.run(os.getpid)
        asked = asyncio.create_task(pool.run(spin))
        await asyncio.sleep(0)

    assert await asked is None
    assert await pool.run(os.getpid) is None
    assert processes() - before == set()


@asynccontextmanager
async def open_pool(
    processes: int = 2, seconds: float = SECONDS, idle_seconds: float = 300
) -> AsyncGenerator[ProcessPool]:
    pool = ProcessPool(processes, seconds, idle_seconds)
    try:
        yield pool
    finally:
        await pool.close()


def turn() -> Turn:
    tools = (ToolSpec("get_weather", {"type": "object", "properties": {"city": {"type": "string"}}}, "Weather."),)
    opened = open_turn(ChatRequest({}, tools=tools), GuardPolicy(), request_id="r", nudge_text=True)
    assert opened
    return opened


def processes() -> set[int]:
    """The child processes of this one that still run."""
    return {pid for pid in children(os.getpid()) if not has_ended(pid)}


async def eventually(look: Callable[[], object]) -> set[int]:
    """Look again and again, with a bound, until there is something."""
    async with asyncio.timeout(SECONDS):
        while not (seen := look()):  # noqa: ASYNC110  what happens in another process sets no event here
            await asyncio.sleep(0.01)
    return seen if isinstance(seen, set) else set()
