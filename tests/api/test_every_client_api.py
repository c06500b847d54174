"""The same conversation through all client APIs: the same text, calls and reasoning, and the same prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import httpx
import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from tests.api.client_apis import CHAT_COMPLETIONS_API, CLIENT_APIS, ApiResponse, ClientApi, Turn
from tests.fakes.says import Said, respond
from tests.fakes.scripted import JsonDict, ScriptedHttp, StillClock
from tests.properties import sample

WEATHER: JsonDict = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
TOOLS = {"get_weather": WEATHER, "get_time": {"type": "object", "properties": {}}}
USER = Turn("user", "What is the weather in Paris?")
PARIS = ("get_weather", {"city": "Paris"})
TIME = ("get_time", {})
TIME_CALL = ("get_time", "{}")
SYSTEM = Turn("system", "Be brief.")


@dataclass(frozen=True)
class Conversation:
    """A conversation, the responses of the model, and what the client receives."""

    turns: tuple[Turn, ...]
    script: tuple[Said, ...]
    expected: ApiResponse
    tools: Mapping[str, JsonDict]


def told(
    *script: Said,
    turns: tuple[Turn, ...] = (USER,),
    text: str = "",
    calls: tuple[tuple[str, Any], ...] = (),
    reasoning: str = "",
    tools: Mapping[str, JsonDict] = TOOLS,
) -> Conversation:
    return Conversation(turns, script, ApiResponse(text, calls, reasoning), tools)


NATIVE = Said(calls=(("get_weather", '{"city": "Paris"}'),))
HISTORY = (
    SYSTEM,
    USER,
    Turn("assistant", reasoning="Two calls.", calls=(PARIS, TIME)),
    Turn("tool", "sunny", call=0),
    Turn("tool", "noon", call=1),
)
CONVERSATIONS = {
    "text": told(Said("It is sünny.\n"), text="It is sünny.\n", tools={}),
    "reasoning and text": told(Said("It is sunny.", reasoning="Hm."), text="It is sunny.", reasoning="Hm.", tools={}),
    "text from the respond tool": told(respond("It is sunny."), text="It is sunny."),
    "a call": told(NATIVE, calls=(PARIS,)),
    "two calls": told(Said(calls=(*NATIVE.calls, TIME_CALL)), calls=(PARIS, TIME)),
    "a call after reasoning": told(Said(calls=NATIVE.calls, reasoning="Hm."), calls=(PARIS,), reasoning="Hm."),
    "a call in prose": told(
        Said('<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'), calls=(PARIS,)
    ),
    "a call with a wrong type": told(
        Said(calls=(("get_weather", '{"city": "Paris", "days": "2"}'),)),
        calls=(("get_weather", {"city": "Paris", "days": 2}),),
    ),
    "a call without its argument, then a valid one": told(Said(calls=(("get_weather", "{}"),)), NATIVE, calls=(PARIS,)),
    "a call of an unknown tool, then a valid one": told(
        Said(calls=(("get_wether_of_city", "{}"),)), NATIVE, calls=(PARIS,)
    ),
    "a history with results": told(respond("It is sunny at noon."), turns=HISTORY, text="It is sunny at noon."),
    "a history without tools": told(
        Said("Bye."), turns=(SYSTEM, USER, Turn("assistant", "Sunny."), Turn("user", "Thanks.")), text="Bye.", tools={}
    ),
}
every_api = pytest.mark.parametrize("api", CLIENT_APIS, ids=lambda api: api.name)
every_conversation = pytest.mark.parametrize("name", CONVERSATIONS)


async def send(
    api: ClientApi, conversation: Conversation, *, stream: bool, cut: int = 1_000_000
) -> tuple[ApiResponse, list[JsonDict]]:
    """Return what a client receives, and what the model server received."""
    http = ScriptedHttp(conversation.script, cut)
    response = await post(api, conversation, http, GuardPolicy(on_early_end="accept"), stream=stream)
    assert response.status_code == 200, response.text
    return api.read(response.text, stream=stream), http.asked


async def post(
    api: ClientApi, conversation: Conversation, http: ScriptedHttp, policy: GuardPolicy, *, stream: bool
) -> httpx.Response:
    backend = OpenAICompatible("http://scripted", http)
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None, guardrails=policy))
    app = create_app(engine, backend, ServerConfig())
    body = api.request(conversation.turns, conversation.tools, stream=stream)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        return await client.post(api.path, json=body)


@every_api
@every_conversation
async def test_the_same_conversation_gives_the_same_text_calls_and_reasoning(api: ClientApi, name: str) -> None:
    conversation = CONVERSATIONS[name]

    whole, _ = await send(api, conversation, stream=False)
    streamed, _ = await send(api, conversation, stream=True)

    assert whole == conversation.expected
    assert streamed == conversation.expected


@pytest.mark.parametrize(("api", "name"), sample([*product(CLIENT_APIS, CONVERSATIONS)], 0.5))
async def test_a_stream_is_the_same_at_any_chunk_boundaries_of_the_model_server(api: ClientApi, name: str) -> None:
    conversation = CONVERSATIONS[name]

    for cut in (1, 13):
        streamed, _ = await send(api, conversation, stream=True, cut=cut)
        assert streamed == conversation.expected


@every_api
@every_conversation
async def test_the_model_server_receives_the_same_prompt(api: ClientApi, name: str) -> None:
    conversation = CONVERSATIONS[name]

    _, asked = await send(api, conversation, stream=True)
    _, expected = await send(CHAT_COMPLETIONS_API, conversation, stream=True)

    assert [_prompt(body) for body in asked] == [_prompt(body) for body in expected]


BROKEN = '{"city": "Par'
DEEP = '{"city": ' + "[" * 600 + "]" * 600 + "}"
EXHAUSTED = {
    "broken JSON": told(*[Said(calls=(("get_weather", BROKEN),))] * 4, text=f"get_weather{BROKEN}"),
    "broken JSON beside a valid call": told(
        *[Said(calls=(("get_weather", BROKEN), TIME_CALL))] * 4, text=f"get_weather{BROKEN}", calls=(TIME,)
    ),
    "arguments that are not an object": told(*[Said(calls=(("get_weather", "[1]"),))] * 4, text="get_weather[1]"),
    "a missing argument": told(*[Said(calls=(("get_weather", "{}"),))] * 4, calls=(("get_weather", {}),)),
    "an unknown tool": told(*[Said(calls=(("sing", "{}"),))] * 4, calls=(("sing", {}),)),
}
FAILING = {
    "broken JSON": (EXHAUSTED["broken JSON"], GuardPolicy(on_exhausted="error")),
    "arguments that no parser reads": (told(*[Said(calls=(("get_weather", DEEP),))] * 4), GuardPolicy()),
    "an empty response": (told(*[Said()] * 4), GuardPolicy()),
}


@every_api
@pytest.mark.parametrize("name", EXHAUSTED)
async def test_calls_that_stay_invalid_are_delivered_alike_streamed_and_whole(api: ClientApi, name: str) -> None:
    conversation = EXHAUSTED[name]

    whole, asked = await send(api, conversation, stream=False)
    streamed, _ = await send(api, conversation, stream=True)

    assert len(asked) == 4
    assert whole == conversation.expected
    assert streamed == conversation.expected


@every_api
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", FAILING)
async def test_what_cannot_be_delivered_is_an_error_of_the_same_status_streamed_and_whole(
    api: ClientApi, name: str, stream: bool
) -> None:
    conversation, policy = FAILING[name]

    response = await post(api, conversation, ScriptedHttp(conversation.script), policy, stream=stream)

    assert (response.status_code, response.headers["content-type"]) == (502, "application/json")
    assert "in 4 attempts" in response.text


def _prompt(body: JsonDict) -> list[Any]:
    """The prompt as a chat template sees it: without ids, and with one spelling of what is empty."""
    messages = [
        (
            message["role"],
            _text(message.get("content")),
            message.get("reasoning_content") or "",
            [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in message.get("tool_calls") or []],
        )
        for message in body["messages"]
    ]
    tools = [(tool["function"]["name"], tool["function"]["parameters"]) for tool in body.get("tools") or []]
    return [messages, tools]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content or [])
