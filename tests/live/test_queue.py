"""A real llama.cpp gets as many requests as it has slots, and none of clients that disconnect while queued."""

from __future__ import annotations

import asyncio

from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.jsontypes import Json
from forge_proxy.daemon import EngineAssembly, assemble
from forge_proxy.engine.events import Event, RequestAbandoned, RequestAnswered
from forge_proxy.settings import load
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.live.weather import MODEL


async def test_many_ask_clients_take_turns_and_who_leaves_is_unknown_to_llama_cpp() -> None:
    heard: list[Event] = []
    names = [f"a{number}" for number in range(12)] + [f"b{number}" for number in range(8)]
    leavers = {"b1", "b3", "b5", "b7"}
    async with assemble(load(None, {"backend": {"kind": "embedded"}}), heard.append) as parts:
        await parts.load()
        assert parts.manager
        tasks = {name: asyncio.create_task(asked(parts, name)) for name in names}
        await asyncio.sleep(0)

        for name in leavers:
            tasks[name].cancel()
        await asyncio.wait(tasks.values())

    launched = [line for line in parts.manager.logs(500) if "launch_slot" in line]  # complete, now that it has ended
    assert {event.record.request_id for event in heard if isinstance(event, RequestAbandoned)} == leavers
    answered = [event.record.request_id for event in heard if isinstance(event, RequestAnswered)]
    assert sorted(answered) == sorted(set(names) - leavers)
    assert len(launched) == len(answered)
    assert all(answered.index(f"b{number}") < answered.index("a9") for number in (0, 2, 4, 6))


async def asked(parts: EngineAssembly, name: str) -> None:
    """Read a response to its end; the client is the first letter."""
    hi: Json = [{"role": "user", "content": "hi"}]
    body: dict[str, Json] = {"model": MODEL, "messages": hi, "stream": True, "max_tokens": 50, "ignore_eos": True}
    answer = parts.engine.answer(decode_request(body), GuardPolicy(), request_id=name, client=name[0])
    async for _ in answer:
        pass
