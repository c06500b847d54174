"""Many concurrent streams, and a request as large as that of an agent with all its tools."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from tests.fakes.processes import Process, daemon, model_server, until
from tests.system.asking import PATH, TOOL, JsonDict, ask, events, text

STREAMS = 200
TOOLS = 120
GUARDED: JsonDict = {"tools": [TOOL]}


async def test_two_hundred_concurrent_streams_each_get_their_own_response() -> None:
    """Half of them are guarded. All have begun before the first one ends."""
    users = {f"user {number} says hello": GUARDED if number % 2 else {} for number in range(STREAMS)}
    env = {"FORGE_PROXY_GUARDRAILS__TEXT_ANSWERS": "accept", "FORGE_PROXY_SERVER__FIRST_EVENT_SECONDS": "0.1"}
    begun: set[str] = set()
    all_begun = asyncio.Event()

    async def listen(client: httpx.AsyncClient, user: str, tools: JsonDict) -> str:
        async with client.stream("POST", PATH, json=ask("echoes", user=user, stream=True, **tools)) as response:
            assert response.status_code == 200
            begun.add(user)
            if len(begun) == STREAMS:
                all_begun.set()
            got = [line async for line in response.aiter_lines()]
        assert events(got)[-1] == "[DONE]"
        return text(events(got))

    with model_server() as server, daemon("--backend-url", server.url, env=env) as proxy:
        limits = httpx.Limits(max_connections=None)
        async with (
            httpx.AsyncClient(base_url=proxy.url, limits=limits, timeout=60) as client,
            asyncio.TaskGroup() as group,
        ):
            listening = [group.create_task(listen(client, user, tools)) for user, tools in users.items()]
            await all_begun.wait()
            assert not any(task.done() for task in listening)
            await client.post(server.url + "/go")

        assert [task.result() for task in listening] == list(users)
        until(lambda: proxy.printed.count('"event":"answered"') == STREAMS, "each response is logged")
        assert "Traceback" not in proxy.printed


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_megabyte_with_all_the_tools_of_an_agent_is_guarded(
    server: Process, client: httpx.Client, stream: bool
) -> None:
    described = {"type": "string", "description": "é words about it " * 230}
    properties = {"n": {"type": "integer"}, "what": described, "where": described, "how": {"enum": ["a", None]}}
    schema = {"type": "object", "properties": properties, "required": ["n"]}
    tools = [
        {"type": "function", "function": {"name": f"tool_{number}", "parameters": schema}} for number in range(TOOLS)
    ]
    history = [{"role": "user", "content": "a long page " * 5000}]
    body = {"model": "calls-the-last", "messages": history, "tools": tools, "stream": stream, "user": f"large {stream}"}
    size = len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())
    assert size > 1024 * 1024

    response = client.post(PATH, json=body)

    assert response.status_code == 200
    if stream:
        deltas = [json.loads(event)["choices"][0]["delta"] for event in events(response.text.splitlines())[:-1]]
        parts = [delta["tool_calls"][0]["function"] for delta in deltas if delta.get("tool_calls")]
        called = {"name": parts[0]["name"], "arguments": parts[1]["arguments"]}
    else:
        (call,) = response.json()["choices"][0]["message"]["tool_calls"]
        called = call["function"]
    assert called["name"] == f"tool_{TOOLS - 1}"
    assert json.loads(called["arguments"])["n"] > size
