"""A request that the backend rejects for its format is rewritten and retried, and later ones are rewritten at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.http import RequestBody
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.events import Event, RequestRewritten
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock, whole

JsonDict = dict[str, Any]
USER: JsonDict = {"role": "user", "content": "Hi."}
SYSTEM: JsonDict = {"role": "system", "content": "Be brief."}
GRAMMAR = "Failed to initialize samplers: failed to parse grammar"
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def tool(name: str, pattern: str = "[a-z]") -> JsonDict:
    parameters = {"type": "object", "properties": {"q": {"type": "string", "pattern": pattern}}}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


@dataclass
class Particular(ScriptedHttp):
    """A server that rejects requests: `refuses` returns the error message, or None to accept."""

    script: Sequence[Said | Exception] = ()
    refuses: Callable[[JsonDict], str | None] = lambda _: None
    status: int = 400

    def open(self, method: str, url: str, *, body: RequestBody | None = None, **more: Any) -> Any:
        if method == "POST":
            asked: JsonDict = json.loads(whole(body) or b"{}")
            words = self.refuses(asked)
            call = (("search", '{"q": "x"}'),) if asked.get("tools") else ()
            refusal = Said(status=self.status, body={"error": {"message": words}})
            self.script = [*self.script, refusal if words else Said("Hello.", calls=call)]
        return super().open(method, url, body=body, **more)


@dataclass
class World:
    """A daemon in front of such a server."""

    http: Particular
    heard: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        backend = OpenAICompatible("http://scripted", self.http)
        engine = Engine(EngineConfig(backend, StillClock(), self.heard.append))
        self._app = create_app(engine, backend, ServerConfig())

    async def ask(self, *messages: JsonDict, **fields: Any) -> httpx.Response:
        body = {"model": "scripted", "messages": list(messages), **fields}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self._app), base_url="http://127.0.0.1") as client:
            return await client.post("/v1/chat/completions", json=body)

    @property
    def asked(self) -> list[JsonDict]:
        return self.http.asked


def wants_alternation(body: JsonDict) -> str | None:
    roles = [message["role"] for message in body["messages"] if message["role"] != "system"]
    again = any(a == b for a, b in pairwise(roles))
    return "Conversation roles must alternate user/assistant" if again else None


def wants_no_developer(body: JsonDict) -> str | None:
    return "Unknown role developer" if any(message["role"] == "developer" for message in body["messages"]) else None


def wants_no_pattern(body: JsonDict) -> str | None:
    return GRAMMAR if "'pattern'" in str(body.get("tools")) else None


@both
async def test_roles_are_mapped_after_a_rejection_and_the_mapping_is_remembered(stream: bool) -> None:
    def refuses(body: JsonDict) -> str | None:
        return wants_no_developer(body) or wants_alternation(body)

    world = World(Particular(refuses=refuses, status=500))
    messages = [{"role": "developer", "content": "d"}, USER, USER]

    first = await world.ask(*messages, stream=stream)
    second = await world.ask(*messages, stream=stream)

    assert (first.status_code, second.status_code) == (200, 200)
    mapped = [{"role": "system", "content": "d"}, {"role": "user", "content": "Hi.\n\nHi."}]
    assert [asked["messages"] for asked in world.asked] == [
        messages,
        [{"role": "system", "content": "d"}, USER, USER],
        mapped,
        mapped,
    ]
    learned = ("developer as system", "system messages first", "consecutive messages of one role merged")
    assert [event for event in world.heard if isinstance(event, RequestRewritten)] == [
        RequestRewritten("scripted", learned)
    ]


@both
async def test_rejected_tools_are_sent_with_simplified_schemas_from_then_on(stream: bool) -> None:
    world = World(Particular(refuses=wants_no_pattern))
    tools = [tool("search"), tool("note")]

    first = await world.ask(USER, tools=tools, stream=stream)
    second = await world.ask(USER, tools=tools, stream=stream)
    await world.ask(USER, tools=tools[:1], stream=stream)

    assert (first.status_code, second.status_code) == (200, 200)
    offered = [asked["tools"] for asked in world.asked]
    assert offered[0][:2] == tools
    assert offered[1] == offered[2]
    assert [one["function"]["parameters"]["properties"] for one in offered[1][:2]] == [{"q": {"type": "string"}}] * 2
    assert [len(one) for one in offered] == [3, 3, 3, 2, 2]
    assert offered[3][:1] == tools[:1]


async def test_calls_are_validated_against_the_clients_own_schema() -> None:
    world = World(Particular(refuses=wants_no_pattern))

    response = await world.ask(USER, tools=[tool("search", "^[0-9]$")])

    assert response.headers["x-forge-outcome"] == "exhausted"
    assert "[ToolArgValidationError]" in world.asked[2]["messages"][-1]["content"]


@both
@pytest.mark.parametrize("count", [1, 2, 7, 40])
async def test_the_rejected_tool_is_found_and_named(stream: bool, count: int) -> None:
    def refuses(body: JsonDict) -> str | None:
        return GRAMMAR if "'guilty'" in str(body.get("tools")) else None

    world = World(Particular(refuses=refuses))
    place = count * 2 // 3
    tools = [tool("guilty" if n == place else f"tool_{n}") for n in range(count)]

    response = await world.ask(USER, tools=tools, stream=stream)
    probes = len(world.asked) - 2
    again = await world.ask(USER, tools=tools, stream=stream)

    assert (response.status_code, again.status_code) == (400, 400)
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_function_parameters")
    assert error["param"] == f"tools[{place}].function.parameters"
    assert "'guilty'" in error["message"]
    assert GRAMMAR in error["message"]
    assert again.json() == response.json()
    assert probes <= 1 + (count - 1).bit_length()
    assert len(world.asked) == probes + 3  # known by then: requested once, in case the server has changed
    assert all(asked["max_tokens"] == 1 for asked in world.asked[2 : 2 + probes])


async def test_tools_that_are_rejected_only_together_are_reported_as_such() -> None:
    def refuses(body: JsonDict) -> str | None:
        return GRAMMAR if len(body.get("tools", ())) > 5 else None

    world = World(Particular(refuses=refuses))

    response = await world.ask(USER, tools=[tool(f"tool_{n}") for n in range(8)])

    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, "tools")
    assert "8 tools together" in error["message"]


async def test_a_rejection_for_another_reason_keeps_the_servers_message() -> None:
    def refuses(body: JsonDict) -> str | None:
        return "failed to parse grammar" if "response_format" in body else None

    world = World(Particular(refuses=refuses))
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}

    bare = await world.ask(USER, response_format=schema)
    with_tools = await world.ask(USER, tools=[tool("search")], response_format=schema)

    assert bare.json()["error"]["message"] == with_tools.json()["error"]["message"] == "failed to parse grammar"
    assert (bare.status_code, with_tools.status_code) == (400, 400)
    assert len(world.asked) == 1 + 4


async def test_if_mapping_does_not_help_the_error_is_the_servers() -> None:
    world = World(Particular(refuses=lambda _: "Conversation roles must alternate", status=500))

    response = await world.ask(USER, USER)

    assert (response.status_code, len(world.asked)) == (500, 2)
    assert not [event for event in world.heard if isinstance(event, RequestRewritten)]


EXACT = (
    "'max_tokens' is too large: 8000. This model's maximum context length is 4096 tokens and your request has "
    "2778 input tokens (8000 > 4096 - 2778)"
)
LEAST = (
    "This model's maximum context length is 4096 tokens. However, you requested 8000 output tokens and your prompt "
    "contains at least 97 input tokens"
)


@both
@pytest.mark.parametrize(("said", "limit"), [(EXACT, 1318), (LEAST, None)], ids=["exact", "least"])
async def test_a_limit_beyond_the_window_is_lowered(stream: bool, said: str, limit: int | None) -> None:
    def refuses(body: JsonDict) -> str | None:
        return said if body.get("max_tokens", 0) > 1318 else None

    world = World(Particular(refuses=refuses))

    response = await world.ask(USER, max_tokens=8000, stream=stream)

    assert response.status_code == 200
    assert [asked.get("max_tokens") for asked in world.asked] == [8000, limit]


@both
@pytest.mark.parametrize("tools", [None, [tool("search")]], ids=["bare", "guarded"])
async def test_an_overflow_is_reported_in_the_form_that_clients_read(stream: bool, tools: Any) -> None:
    words = "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"
    world = World(Particular(refuses=lambda _: words, status=500))

    response = await world.ask(SYSTEM, USER, tools=tools, stream=stream)

    assert (response.status_code, len(world.asked)) == (400, 1)
    assert response.json()["error"] == {
        "message": "This model's maximum context length is 7424 tokens. However, your messages resulted in 15028 "
        f"tokens. Please reduce the length of the messages. The model server says: {words}",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }


async def test_an_overflow_in_that_form_is_forwarded_unchanged() -> None:
    words = "This model's maximum context length is 8 tokens. However, your messages resulted in 9 tokens."
    world = World(Particular(refuses=lambda _: words))

    assert (await world.ask(USER)).json()["error"]["message"] == words


async def test_a_repaired_history_is_the_same_in_each_turn() -> None:
    world = World(Particular())
    call = {"id": "", "function": {"name": "search", "arguments": "{'q': 1"}}
    turn = [USER, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "x"}]

    await world.ask(*turn)
    await world.ask(*turn, {"role": "assistant"}, USER)

    first, second = (asked["messages"] for asked in world.asked)
    assert second[:3] == first
    assert first[1]["tool_calls"][0]["id"] == first[2]["tool_call_id"]
