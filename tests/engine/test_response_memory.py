"""Buffered responses of guarded requests count in the memory budget for as long as their attempt lasts."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.errors import BackendFault
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine import memory as module
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.memory import MEGABYTE, MemoryBudget, MemoryFull, ResponseMemory
from forge_proxy.wire.openai.request import decode_request
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock

TOOL = {"type": "function", "function": {"name": "write", "parameters": {"type": "object"}}}
REQUEST = decode_request({"messages": [{"role": "user", "content": "x"}], "tools": [TOOL], "stream": True})


def call(megabytes: int, *, breaks_off: bool = False) -> Said:
    """A call whose arguments are that long, sent in one delta."""
    made = {"name": "write", "arguments": f'{{"text": "{"x" * megabytes * MEGABYTE}"}}'}
    begun = {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c", "function": made}]}}]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    return Said(events=[begun] if breaks_off else [begun, end], breaks_off=breaks_off)


async def reserved_by(memory: MemoryBudget, *script: Said) -> int:
    """The most that was reserved while a request was answered; afterwards nothing is."""
    most, extend = 0, memory.extend_response

    def watch(size: int, *, is_large: bool) -> bool:
        nonlocal most
        granted = extend(size, is_large=is_large)
        most = max(most, memory.used)
        return granted

    memory.extend_response = watch  # type: ignore[method-assign]
    backend = OpenAICompatible("http://scripted", ScriptedHttp(script))
    engine = Engine(backend, StillClock(), lambda _: None, memory=memory)
    async with aclosing(engine.answer(REQUEST, GuardPolicy(), request_id="r")) as events:
        async for _ in events:
            pass
    return most


async def test_a_buffered_response_is_reserved_and_returned() -> None:
    memory = MemoryBudget(100 * MEGABYTE)

    assert 2 * MEGABYTE <= await reserved_by(memory, call(2)) <= 3 * MEGABYTE
    assert memory.used == 0


async def test_a_small_response_reserves_nothing() -> None:
    assert await reserved_by(MemoryBudget(100 * MEGABYTE), call(0)) == 0


async def test_a_response_that_is_lost_is_returned_before_the_next() -> None:
    memory = MemoryBudget(100 * MEGABYTE)

    assert await reserved_by(memory, call(2, breaks_off=True), call(2)) <= 3 * MEGABYTE
    assert memory.used == 0


async def test_a_response_that_fails_for_good_is_returned() -> None:
    memory = MemoryBudget(100 * MEGABYTE)

    with pytest.raises(BackendFault):
        await reserved_by(memory, *[call(2, breaks_off=True)] * 3)
    assert memory.used == 0


async def test_without_room_the_request_fails_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RESPONSE_WAIT_SECONDS", 0.1)
    memory = MemoryBudget(16 * MEGABYTE)
    await memory.reserve(12 * MEGABYTE)
    memory.add(3 * MEGABYTE)

    with pytest.raises(MemoryFull):
        await reserved_by(memory, call(2))
    assert memory.used == 15 * MEGABYTE


async def test_a_response_waits_for_room_and_large_ones_leave_a_quarter() -> None:
    memory = MemoryBudget(16 * MEGABYTE)
    await memory.reserve(11 * MEGABYTE)
    with ResponseMemory(memory) as large, ResponseMemory(memory) as small:
        waiting = asyncio.create_task(large.grow_to(5 * MEGABYTE))
        await small.grow_to(MEGABYTE)
        await asyncio.sleep(0)
        assert (memory.used, waiting.done()) == (12 * MEGABYTE, False)
        memory.release(11 * MEGABYTE)
        await waiting
        assert memory.used == 6 * MEGABYTE
    assert memory.used == 0
