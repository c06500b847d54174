"""A client that disconnects stops a real llama.cpp: while it reads the prompt, and during a retry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from forge_proxy.backends.llama_server.manager import ServerManager
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.daemon import EngineAssembly, assemble
from forge_proxy.engine.events import AttemptRetried, Event, RequestAbandoned
from forge_proxy.settings import load
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.live.weather import MODEL, TOOLS

OFFERING: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "word " * 380}],  # half a second to process, each time
    "cache_prompt": False,
    "ignore_eos": True,
    "max_tokens": 20,
    "temperature": 0,
    "tools": TOOLS,
}
DEMANDING: dict[str, Any] = {**OFFERING, "tool_choice": "required"}


@pytest.fixture
async def heard() -> list[Event]:
    return []


@pytest.fixture
async def parts(heard: list[Event]) -> AsyncGenerator[EngineAssembly]:
    """A daemon without authentication, whose model processes one request at a time."""
    settings = load(None, {"backend": {"kind": "embedded", "llama_server": {"slots": 1}}})
    async with assemble(settings, heard.append) as parts:
        await parts.load()
        yield parts


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("body", "attempts"), [(OFFERING, 1), (DEMANDING, 2)], ids=["prefill", "retrying"])
async def test_a_disconnect_stops_llama_cpp(
    parts: EngineAssembly, heard: list[Event], body: dict[str, Any], attempts: int, stream: bool
) -> None:
    assert parts.manager
    asked = asyncio.create_task(read(parts, {**body, "stream": stream}))
    await said(parts.manager, "launch_slot", attempts)

    asked.cancel()
    await asyncio.wait([asked])

    await said(parts.manager, "cancel task", 1)
    assert any(isinstance(event, RequestAbandoned) for event in heard)
    assert any(isinstance(event, AttemptRetried) for event in heard) is (attempts > 1)


async def read(parts: EngineAssembly, body: dict[str, Any]) -> None:
    async for _ in parts.engine.answer(decode_request(body), GuardPolicy(), request_id="leaver"):
        pass


async def said(manager: ServerManager, words: str, times: int) -> None:
    """Wait until llama.cpp has logged that so often."""
    async with asyncio.timeout(30):
        while sum(words in line for line in manager.logs()) < times:  # noqa: ASYNC110  nothing reports a line in the log of another process
            await asyncio.sleep(0.005)
