"""However the backend's bytes are cut, `/v1/responses` gives the same response, streamed and whole, and the same calls
and text as `/v1/chat/completions`.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import httpx
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from tests.api.test_cuts import REPLIES
from tests.api.test_mistakes import ASK
from tests.fakes.response_events import final_response, read_events
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock, chat
from tests.properties import examples

JsonDict = dict[str, Any]
POLICY = GuardPolicy(text_responses="accept")
SCRIPTS = st.lists(REPLIES, min_size=4, max_size=4)


def to_responses(body: JsonDict) -> JsonDict:
    """A chat completion request as one of the Responses API."""
    tools = [{"type": "function", "strict": None, **tool["function"]} for tool in body["tools"]]
    rest = {name: value for name, value in body.items() if name not in ("messages", "tools")}
    return {**rest, "input": body["messages"], "tools": tools}


async def respond(script: list[Said], cut: int, *, stream: bool) -> JsonDict:
    """The response, whole or of the last event; or the error."""
    backend = OpenAICompatible("http://scripted", ScriptedHttp(script, cut))
    engine = Engine(EngineConfig(backend, StillClock(), [].append, guardrails=POLICY))
    transport = httpx.ASGITransport(create_app(engine, backend, ServerConfig()))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        got = await client.post("/v1/responses", json={**to_responses(ASK), "stream": stream})
    is_stream = got.headers["content-type"].startswith("text/event-stream")
    return final_response(read_events(got.content)) if is_stream else got.json()


def content(response: JsonDict) -> Any:
    """What a client makes of a response."""
    if response.get("error"):
        return response["error"].get("message")
    items = [
        {name: value for name, value in item.items() if name not in ("id", "call_id")} for item in response["output"]
    ]
    return response["status"], items


@examples(60)
@given(script=SCRIPTS, cut=st.integers(1, 200), piece=st.integers(1, 30))
def test_any_chunk_boundaries_give_the_same_response_streamed_and_whole(
    script: list[Said], cut: int, piece: int
) -> None:
    recut = [replace(said, piece=piece) for said in script]

    async def both() -> tuple[JsonDict, JsonDict, JsonDict]:
        return (
            await respond(script, 1_000_000, stream=False),
            await respond(script, 1_000_000, stream=True),
            await respond(recut, cut, stream=True),
        )

    whole, at_once, in_pieces = asyncio.run(both())

    assert content(at_once) == content(in_pieces)
    assert content(at_once) == content(whole)


@examples(60)
@given(script=SCRIPTS)
def test_the_calls_and_the_text_are_those_of_a_chat_completion(script: list[Said]) -> None:
    async def both() -> tuple[JsonDict, Any]:
        return await respond(script, 1_000_000, stream=False), await chat(script, ASK, policy=POLICY)

    response, completion = asyncio.run(both())

    output = response.get("output") or []
    texts = [part["text"] for item in output if item["type"] == "message" for part in item["content"]]
    calls = [(item["name"], json.loads(item["arguments"])) for item in output if item["type"] == "function_call"]
    reasoning = [part["text"] for item in output if item["type"] == "reasoning" for part in item["content"]]
    assert ("".join(texts), calls) == (completion.text or "", completion.calls)
    assert "".join(reasoning) == (completion.reasoning or "")
