"""Constrained retries with a real llama.cpp: it accepts the schema beside the tools, and the JSON becomes a call."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.chat import ModelCall, ToolGrammar, ToolSpec
from forge_proxy.core.dialect import Dialect
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.stream import CallDelta, Chunk, Delta
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.engine.config import EngineConfig
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.fakes.llama_cpp import llama_cpp
from tests.live.weather import ASK_PARIS, MODEL, PARIS, TOOLS

KEY = "its-own"
GREETING: list[Any] = [{"role": "user", "content": "Hello."}]


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with llama_cpp(KEY) as url:
        yield url


class Unknown(OpenAICompatible):
    """A llama.cpp whose first response to each request is replaced by a call of an unknown tool."""

    first = CallDelta(0, "c", "nonsense", "{}")
    constraints: list[str]
    """The requests that it received."""

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        if not call.added:
            yield Chunk((Delta(calls=(self.first,)), Delta(finish="tool_calls")))
            return
        self.constraints.append(call.constraint)
        async with aclosing(super().stream(call)) as chunks:
            async for chunk in chunks:
                yield chunk


@dataclass
class Done:
    """The result of a request."""

    text: str = ""
    name: str = ""
    arguments: str = ""
    attempts: int = 0
    constraints: list[str] = field(default_factory=list[str])


async def ask(url: str, messages: list[Any], *, stream: bool) -> Done:
    done = Done()
    http = AioHttp(connect_seconds=5, silence_seconds=60)
    try:
        backend = Unknown(url, http, api_key=KEY)
        backend.constraints = done.constraints
        engine = Engine(EngineConfig(backend, MonotonicClock(), lambda _: None, dialect=Dialect(llama_cpp=True)))
        tools: list[Any] = [*TOOLS]
        request = decode_request(
            {"model": MODEL, "messages": messages, "tools": tools, "stream": stream, "seed": 1, "max_tokens": 200}
        )
        policy = GuardPolicy(constrain_retries="always")
        async for event in engine.answer(request, policy, request_id="r"):
            if isinstance(event, Report):
                done.attempts = event.attempts
            elif isinstance(event, Chunk):
                for delta in event.deltas:
                    done.text += delta.text or ""
                    for call in delta.calls:
                        done.name += call.name or ""
                        done.arguments += call.arguments or ""
        (record,) = engine.retry_history.records.values()
        assert (record.constrained, record.constrained_valid) == (1, 1)
    finally:
        await http.close()
    return done


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_real_server_answers_a_constrained_retry_with_a_call(url: str, stream: bool) -> None:
    done = await ask(url, [*ASK_PARIS], stream=stream)

    assert (done.name, json.loads(done.arguments), done.attempts) == ("get_weather", PARIS, 2)
    assert done.constraints == ["schema"]  # the server accepted it at once


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_constrained_retry_ends_in_text_or_in_a_call_but_never_in_json(url: str, stream: bool) -> None:
    done = await ask(url, GREETING, stream=stream)

    assert bool(done.text) != bool(done.name)
    assert "{" not in done.text


class Mismatched(Unknown):
    """A llama.cpp whose first response is replaced by a call whose text does not match the tool's grammar."""

    first = CallDelta(0, "c", "run", '{"code": "no"}')


async def test_a_real_server_is_limited_to_the_grammar_of_a_tool(url: str) -> None:
    http = AioHttp(connect_seconds=5, silence_seconds=60)
    schema: Any = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
    grammar = ToolGrammar("lark", r'start: "\"" WORD ("\n" WORD)~1..2 "\\"' + "\nWORD: /[a-c]{2,4}/", argument="code")
    tool: Any = {"type": "function", "function": {"name": "run", "parameters": schema}}
    try:
        backend = Mismatched(url, http, api_key=KEY)
        backend.constraints = []
        engine = Engine(EngineConfig(backend, MonotonicClock(), lambda _: None, dialect=Dialect(llama_cpp=True)))
        body: Any = {"model": MODEL, "messages": GREETING, "tools": [tool], "max_tokens": 200}
        request = replace(decode_request(body), tools=(ToolSpec("run", schema, grammar=grammar),), is_converted=True)
        arguments = ""
        async for event in engine.answer(request, GuardPolicy(constrain_retries="always"), request_id="r"):
            if isinstance(event, Chunk):
                arguments += "".join(call.arguments for delta in event.deltas for call in delta.calls)
    finally:
        await http.close()

    assert backend.constraints == ["grammar"]  # the server accepted it at once
    assert re.fullmatch(r'"[a-c]{2,4}(\n[a-c]{2,4}){1,2}\\', json.loads(arguments)["code"])
