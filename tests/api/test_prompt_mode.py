"""A model without native tool calls: the prompt describes the tools, and its calls are parsed from its text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.dialect import Dialect
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.events import Event, RequestRewritten
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock

JsonDict = dict[str, Any]
USER: JsonDict = {"role": "user", "content": "Oslo?"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: JsonDict = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}
REFUSAL = Said(status=400, body={"error": {"message": "library/x does not support tools"}})


class World:
    """A daemon whose model returns these responses one after another."""

    def __init__(self, script: Sequence[Said], dialect: Dialect) -> None:
        self.http = ScriptedHttp(script)
        self.heard: list[Event] = []
        backend = OpenAICompatible("http://scripted", self.http)
        engine = Engine(EngineConfig(backend, StillClock(), self.heard.append, dialect=dialect))
        self._app = create_app(engine, backend, ServerConfig())

    async def ask(self, *messages: JsonDict, **fields: Any) -> httpx.Response:
        body = {"model": "scripted", "messages": list(messages), "tools": [TOOL], **fields}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self._app), base_url="http://127.0.0.1") as client:
            return await client.post("/v1/chat/completions", json=body)


def call(**arguments: Any) -> str:
    return json.dumps({"name": "get_weather", "arguments": arguments})


@pytest.mark.parametrize(
    "text", [call(city="Oslo"), f"```json\n{call(city='Oslo')}\n```", f"<tool_call>{call(city='Oslo')}</tool_call>"]
)
async def test_a_call_is_parsed_from_text(text: str) -> None:
    world = World([Said(text)], Dialect(tools="prompt"))

    answer = await world.ask(USER)

    (choice,) = answer.json()["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    assert "tools" not in world.http.asked[0]


async def test_an_invalid_call_is_corrected_by_a_text_message() -> None:
    world = World([Said(call(town="Oslo")), Said(call(city="Oslo"))], Dialect(tools="prompt"))

    answer = await world.ask(USER)

    assert answer.headers["x-forge-outcome"] == "retried"
    first, second = world.http.asked
    assert second["messages"][:2] == first["messages"]
    assert second["messages"][2]["content"] == call(town="Oslo")
    assert second["messages"][3]["role"] == "user"
    assert "[ToolArgValidationError]" in second["messages"][3]["content"]


async def test_the_respond_tool_works_in_prompt_mode() -> None:
    said = json.dumps({"name": "respond", "arguments": {"message": "Cold."}})
    world = World([Said(said)], Dialect(tools="prompt"))

    answer = await world.ask(USER)

    (choice,) = answer.json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Cold.", "stop")
    assert "tool_calls" not in choice["message"]


async def test_a_server_that_rejects_tools_gets_them_in_the_prompt_from_then_on() -> None:
    world = World([REFUSAL, Said(call(city="Oslo")), Said(call(city="Rome"))], Dialect())

    answers = [await world.ask(USER), await world.ask(USER)]

    assert [answer.json()["choices"][0]["finish_reason"] for answer in answers] == ["tool_calls"] * 2
    assert ["tools" in asked for asked in world.http.asked] == [True, False, False]
    assert [event for event in world.heard if isinstance(event, RequestRewritten)] == [
        RequestRewritten("scripted", ("tools in the prompt",))
    ]


async def test_in_native_mode_the_servers_rejection_is_forwarded() -> None:
    answer = await World([REFUSAL], Dialect(tools="native")).ask(USER)

    assert answer.status_code == 400
    assert "does not support tools" in answer.json()["error"]["message"]
