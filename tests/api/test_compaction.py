"""Contexts over the budget, through the whole application: compacted, answered, and reported to the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.types import Message

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.api.streaming import StreamingAnswer
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.budget import BudgetMode, BudgetPolicy
from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.answer import AnswerEvent, Engine
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.events import ContextCompacted, Event
from forge_proxy.wire.clients.chat_completions.encoder import ChatStreamEncoder
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock

JsonDict = dict[str, Any]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def call(identity: str) -> JsonDict:
    function = {"name": "look", "arguments": "{}"}
    return {"role": "assistant", "tool_calls": [{"id": identity, "type": "function", "function": function}]}


def history(old: int = 4000, recent: int = 200) -> list[JsonDict]:
    """Three turns, the first with a long result."""
    messages: list[JsonDict] = [{"role": "user", "content": "Look three times."}]
    for identity, length in (("a", old), ("b", recent), ("c", recent)):
        messages += [call(identity), {"role": "tool", "tool_call_id": identity, "content": "x" * length}]
    return messages


@asynccontextmanager
async def daemon(
    *script: Said, overflow: Any = "compact", tokens: int = 1000, heard: list[Event] | None = None
) -> AsyncGenerator[tuple[httpx.AsyncClient, ScriptedHttp]]:
    http = ScriptedHttp(script)
    backend = OpenAICompatible("http://scripted", http)
    observe = (heard if heard is not None else []).append
    wish = BudgetPolicy(mode=BudgetMode.MANUAL, tokens=tokens, overflow=overflow)
    engine = Engine(EngineConfig(backend, StillClock(), observe, budgets=Budgets(backend, StillClock(), observe, wish)))
    app = create_app(engine, backend, ServerConfig())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client, http


async def post(client: httpx.AsyncClient, body: JsonDict) -> httpx.Response:
    return await client.post("/v1/chat/completions", json=body)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tools", [[], [TOOL]])
async def test_a_history_over_the_budget_is_compacted_and_reported_to_the_client(
    stream: bool, tools: list[Any]
) -> None:
    heard: list[Event] = []
    messages = history()
    answers = Said(text="Done.") if not tools else Said(calls=(("respond", '{"message": "Done."}'),))
    async with daemon(answers, heard=heard) as (client, http):
        answer = await post(client, {"messages": messages, "tools": tools, "stream": stream, "seed": 7})

    assert answer.status_code == 200
    assert '"finish_reason":"stop"' in answer.text.replace(" ", "")
    assert answer.headers["x-forge-compacted"].startswith("phase=1; messages=1; tokens=about 1")
    (asked,) = http.asked
    assert asked["seed"] == 7
    assert asked["messages"][2]["content"] == "x" * 200 + "\n[Truncated — 3800 chars removed]"
    assert [*asked["messages"][:2], *asked["messages"][3:]] == [*messages[:2], *messages[3:]]
    (event,) = (one for one in heard if isinstance(one, ContextCompacted))
    assert (event.phase, event.cut, event.exact) == (1, 1, False)
    assert answer.headers["x-forge-compacted"].endswith(f"{event.tokens_before}->{event.tokens_after}")


async def test_the_same_history_is_cut_in_the_same_way_each_time() -> None:
    async with daemon(Said(text="A."), Said(text="B.")) as (client, http):
        for _ in range(2):
            await post(client, {"messages": history()})

    assert http.asked[0]["messages"] == http.asked[1]["messages"]


@pytest.mark.parametrize("overflow", ["reject", "compact"])
async def test_within_the_budget_nothing_is_changed_or_reported(overflow: str) -> None:
    async with daemon(Said(text="Done."), overflow=overflow) as (client, http):
        answer = await post(client, {"messages": history(old=2000)})

    assert "x-forge-compacted" not in answer.headers
    assert http.asked[0]["messages"] == history(old=2000)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("overflow", "recent"), [("reject", 200), ("compact", 4000)])
async def test_without_compaction_or_if_it_is_not_enough_the_history_is_rejected(
    overflow: str, recent: int, stream: bool
) -> None:
    async with daemon(overflow=overflow) as (client, http):
        answer = await post(client, {"messages": history(recent=recent), "stream": stream})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert http.asked == []


@pytest.mark.parametrize("stream", [False, True])
async def test_corrections_follow_the_compacted_history(stream: bool) -> None:
    wrong = Said(calls=(("look_up", "{}"),))
    right = Said(calls=(("look", "{}"),))
    async with daemon(wrong, right) as (client, http):
        answer = await post(client, {"messages": history(), "tools": [TOOL], "stream": stream})

    assert answer.status_code == 200
    first, second = (asked["messages"] for asked in http.asked)
    assert second[: len(first)] == first
    assert len(second) == len(first) + 2
    assert answer.headers["x-forge-compacted"].count("phase") == 1


OVERFLOW = Said(status=400, body={"error": {"message": "the request exceeds the available context size", "code": 400,
    "type": "exceed_context_size_error", "n_prompt_tokens": 1500, "n_ctx": 1100}})  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tools", [[], [TOOL]])
async def test_a_prompt_that_the_server_rejects_is_compacted_and_retried(stream: bool, tools: list[Any]) -> None:
    answers = Said(text="Done.") if not tools else Said(calls=(("respond", '{"message": "Done."}'),))
    async with daemon(OVERFLOW, answers, tokens=8000) as (client, http):
        answer = await post(client, {"messages": history(), "tools": tools, "stream": stream})

    assert answer.status_code == 200
    assert [len(asked["messages"][2]["content"]) for asked in http.asked] == [4000, 233]
    assert answer.headers["x-forge-compacted"].startswith("phase=1; messages=1; tokens=about 1500->")


async def test_a_retry_requests_the_room_beside_the_compacted_prompt() -> None:
    def look(tool: str, prompt_tokens: int, finish: str = "tool_calls") -> Said:
        chunks = Said(calls=((tool, "{}" if finish == "tool_calls" else '{"a'),), finish=finish).as_chunks()
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 5}
        return Said(events=[*chunks[:-1], {**chunks[-1], "usage": usage}])

    script = look("look", 3000, "length"), OVERFLOW, look("look_up", 1000), look("look", 1000)
    async with daemon(*script, tokens=8000) as (client, http):
        answer = await post(client, {"messages": history(), "tools": [TOOL], "stream": True})

    assert answer.status_code == 200
    assert [len(asked["messages"][2]["content"]) for asked in http.asked] == [4000, 4000, 233, 233]
    assert [asked.get("max_tokens") for asked in http.asked] == [None, 4984, 4984, 6984]


async def test_a_compacted_prompt_that_the_server_rejects_is_the_servers_error() -> None:
    async with daemon(OVERFLOW, OVERFLOW, OVERFLOW, tokens=8000) as (client, http):
        answer = await post(client, {"messages": history()})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert [len(asked["messages"][2]["content"]) for asked in http.asked] == [4000, 233, 32]


async def test_after_the_headers_a_compaction_is_reported_in_a_comment() -> None:
    started, sent = asyncio.Event(), list[bytes]()

    async def answer() -> AsyncGenerator[AnswerEvent]:
        await started.wait()  # for a slot, say
        yield ContextCompacted("r", None, 2, 3, 900, 400, exact=True)
        yield Chunk((Delta(text="Done.", finish="stop"),))
        yield Report(Outcome.PASSTHROUGH)

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))
        started.set()

    async def receive() -> Message:
        return await asyncio.get_running_loop().create_future()

    request = decode_request({"messages": [*history()], "stream": True})
    await StreamingAnswer(answer(), ChatStreamEncoder(request, "r", 0), ServerConfig(first_event_seconds=0.01), {})(
        {}, receive, send
    )

    told = b": x-forge-compacted=phase=2; messages=3; tokens=900->400\n\n"
    assert [part for part in sent if part.startswith(b": x-forge-compacted")] == [told]
    assert b"".join(sent).endswith(b"data: [DONE]\n\n")
