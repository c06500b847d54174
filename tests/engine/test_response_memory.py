"""Responses count in the memory budget while they are read, assembled and forwarded."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.backend_errors import BackendFault
from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine import memory as module
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.memory import MEGABYTE, MemoryBudget, MemoryFull, ResponseMemory
from forge_proxy.wire.clients.chat_completions.request import decode_request
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


class Noting(MemoryBudget):
    """Records the largest number of reserved bytes."""

    most = 0

    async def grow(self, size: int, total: int, seconds: float) -> None:
        await super().grow(size, total, seconds)
        self.most = max(self.most, self.used)


async def reserved_by(memory: Noting, *script: Said, request: ChatRequest = REQUEST) -> int:
    """Answer a request and return the largest number of bytes that was reserved."""
    backend = OpenAICompatible("http://scripted", ScriptedHttp(script))
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None, memory=memory))
    async with aclosing(engine.answer(request, GuardPolicy(), request_id="r")) as events:
        async for _ in events:
            pass
    return memory.most


async def test_a_buffered_response_is_reserved_and_returned() -> None:
    memory = Noting(100 * MEGABYTE)

    assert 6 * MEGABYTE - 2**18 <= await reserved_by(memory, call(2)) <= 6 * MEGABYTE + 2**18  # three times its length
    assert memory.used == 0


async def test_a_small_response_reserves_nothing() -> None:
    assert await reserved_by(Noting(100 * MEGABYTE), call(0)) == 0


async def test_a_response_that_is_lost_is_returned_before_the_next() -> None:
    memory = Noting(100 * MEGABYTE)

    assert await reserved_by(memory, call(2, breaks_off=True), call(2)) <= 6 * MEGABYTE + 2**18
    assert memory.used == 0


async def test_a_response_that_fails_for_good_is_returned() -> None:
    memory = Noting(100 * MEGABYTE)

    with pytest.raises(BackendFault):
        await reserved_by(memory, *[call(2, breaks_off=True)] * 3)
    assert memory.used == 0


async def test_without_room_the_request_fails_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RESPONSE_WAIT_SECONDS", 0.1)
    memory = Noting(16 * MEGABYTE)
    await memory.reserve(12 * MEGABYTE)
    memory.add(3 * MEGABYTE)

    with pytest.raises(MemoryFull):
        await reserved_by(memory, call(2))
    assert memory.used == 15 * MEGABYTE


def text(megabytes: int) -> Chunk:
    return Chunk((Delta(text="x" * megabytes * MEGABYTE),))


async def test_a_response_waits_for_room_and_large_ones_leave_a_quarter() -> None:
    memory = MemoryBudget(16 * MEGABYTE)
    await memory.reserve(11 * MEGABYTE)
    with ResponseMemory(memory) as large, ResponseMemory(memory) as small:
        waiting = asyncio.create_task(large.add(text(5)))
        await small.add(text(1))
        await asyncio.sleep(0)
        assert (memory.used // MEGABYTE, waiting.done()) == (12, False)
        memory.release(11 * MEGABYTE)
        await waiting
        assert memory.used // MEGABYTE == 6
    assert memory.used == 0


async def test_responses_that_wait_are_granted_in_their_order_ahead_of_new_requests() -> None:
    memory = MemoryBudget(100 * MEGABYTE)
    await memory.reserve(70 * MEGABYTE)
    order: list[str] = []

    async def wait(name: str, response: ResponseMemory | None) -> None:
        await (response.add(text(30)) if response else memory.reserve(30 * MEGABYTE))
        order.append(name)

    with ResponseMemory(memory) as first, ResponseMemory(memory) as second:
        waiting = [asyncio.create_task(wait("new", None))]
        await asyncio.sleep(0)
        waiting += [asyncio.create_task(wait("first", first)), asyncio.create_task(wait("second", second))]
        await asyncio.sleep(0)
        memory.release(70 * MEGABYTE)
        await asyncio.gather(*waiting[1:])
        assert order == ["first", "second"]
    await waiting[0]


async def test_of_two_responses_that_wait_for_each_other_one_fails_and_the_other_ends() -> None:
    memory = MemoryBudget(20 * MEGABYTE)

    async def answer(seconds: float) -> None:
        reserved = 0
        try:
            for size in (7 * MEGABYTE, 6 * MEGABYTE):
                await memory.grow(size, reserved + size, seconds)
                reserved += size
                await asyncio.sleep(0)
        finally:
            memory.release(reserved)

    patient, impatient = await asyncio.gather(answer(30), answer(0.1), return_exceptions=True)

    assert isinstance(impatient, MemoryFull)
    assert patient is None
    assert memory.used == 0


WHOLE = decode_request({"messages": [{"role": "user", "content": "x"}]})


async def test_a_forwarded_non_streaming_response_counts_while_it_is_read() -> None:
    memory = Noting(100 * MEGABYTE)

    assert 9 * MEGABYTE - 2**19 <= await reserved_by(memory, Said("x" * 3 * MEGABYTE), request=WHOLE) <= 10 * MEGABYTE
    assert memory.used == 0


async def test_without_room_a_non_streaming_response_is_not_read_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RESPONSE_WAIT_SECONDS", 0.1)
    memory = Noting(16 * MEGABYTE)

    with pytest.raises(MemoryFull):
        await reserved_by(memory, Said("x" * 20 * MEGABYTE), request=WHOLE)
    assert memory.most <= 12 * MEGABYTE
    assert memory.used == 0


async def test_a_forwarded_stream_counts_only_the_chunk_being_sent_three_times() -> None:
    """As it was received, parsed, and encoded for the client."""
    memory = Noting(100 * MEGABYTE)
    words = [{"choices": [{"index": 0, "delta": {"content": "x" * MEGABYTE}}]} for _ in range(10)]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    request = decode_request({"messages": [{"role": "user", "content": "x"}], "stream": True})

    assert 3 * MEGABYTE <= await reserved_by(memory, Said(events=[*words, end]), request=request) <= 4 * MEGABYTE
    assert memory.used == 0


async def test_a_streamed_chunk_without_the_json_of_the_model_server_counts_as_much() -> None:
    memory = MemoryBudget(100 * MEGABYTE)
    with ResponseMemory(memory) as response:
        await response.add(text(2), is_kept=False)
        assert 6 * MEGABYTE <= memory.used <= 7 * MEGABYTE
        await response.add(Chunk((Delta(text="x"),)), is_kept=False)
        assert memory.used < MEGABYTE


async def test_nothing_counts_while_a_client_reads_the_end_of_a_forwarded_stream() -> None:
    memory = Noting(100 * MEGABYTE)
    long = {"choices": [{"index": 0, "delta": {"content": "x" * MEGABYTE}, "finish_reason": "stop"}]}
    request = decode_request({"messages": [{"role": "user", "content": "x"}], "stream": True})
    backend = OpenAICompatible("http://scripted", ScriptedHttp([Said(events=[long])]))
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None, memory=memory))

    async with aclosing(engine.answer(request, GuardPolicy(), request_id="r")) as events:
        async for event in events:
            if isinstance(event, Report):
                assert memory.used == 0
    assert memory.most >= 3 * MEGABYTE
