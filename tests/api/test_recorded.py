"""Recorded responses of real servers, through the whole application: however they are cut, the result is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import httpx
import pytest
from hypothesis import given

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.stream import Reply
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.wire.backends.openai.call_indexes import CallIndexes
from forge_proxy.wire.backends.openai.response import decode_response
from forge_proxy.wire.backends.openai.stream import ChatStreamReader
from tests.contracts.adapters import put_together
from tests.contracts.recordings import RECORDINGS, Recording
from tests.fakes.literal import EVENTS, JSON, LiteralHttp
from tests.fakes.scripted import JsonDict, StillClock
from tests.properties import LENGTHS, cut, examples

TOOL: JsonDict = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
ASK: JsonDict = {"model": "m", "messages": [{"role": "user", "content": "weather?"}]}

recorded = pytest.mark.parametrize("said", RECORDINGS, ids=lambda said: said.name)
guarded_too = pytest.mark.parametrize("guarded", [False, True], ids=["passed-through", "guarded"])


def ask(sent: Sequence[bytes], kind: str, *, stream: bool, guarded: bool) -> bytes:
    """Return what a client receives if the backend sends this."""
    backend = OpenAICompatible("http://literal", LiteralHttp(sent, kind))
    policy = GuardPolicy(text_responses="accept")
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None, guardrails=policy))
    app = create_app(engine, backend, ServerConfig())
    body: JsonDict = {**ASK, "stream": stream, "stream_options": {"include_usage": True}}

    async def asked() -> bytes:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            tools: JsonDict = {"tools": [TOOL]} if guarded else {}
            said = await client.post("/v1/chat/completions", json={**body, **tools}, headers={"x-request-id": "r"})
        return said.content

    return asyncio.run(asked())


def reply_in(body: bytes, *, stream: bool) -> tuple[Reply, object]:
    """The reply that a client puts together, and its tokens."""
    reader = ChatStreamReader()
    chunks = [*reader.feed(body), *reader.end()] if stream else [CallIndexes().assign(decode_response(body))]
    completion = put_together(chunks)
    assert reader.is_done is stream
    (reply,) = completion.replies
    return replace(reply, text=reply.text or None, extra={}), (completion.usage or {}).get("total_tokens")


def whole_reply_in(body: bytes, said: Recording) -> tuple[Reply, object]:
    """The reply in a whole response, and its tokens; None if the server reports none, which are then estimated."""
    reply, tokens = reply_in(body, stream=False)
    return reply, tokens if said.tokens is not None else None


@lru_cache
def at_once(said: Recording, *, guarded: bool) -> tuple[Reply, object]:
    """The reply when the stream arrives in one piece."""
    return reply_in(ask([said.streamed], EVENTS, stream=True, guarded=guarded), stream=True)


@guarded_too
@recorded
@examples(12)
@given(lengths=LENGTHS)
def test_a_client_gets_the_same_reply_at_any_chunk_boundaries_streamed_and_whole(
    said: Recording, guarded: bool, lengths: list[int]
) -> None:
    pieces = cut(said.streamed, lengths)

    streamed = ask(pieces, EVENTS, stream=True, guarded=guarded)
    made_whole = ask(pieces, EVENTS, stream=False, guarded=guarded)

    expected = at_once(said, guarded=guarded)
    assert reply_in(streamed, stream=True) == expected
    assert whole_reply_in(made_whole, said) == expected


@guarded_too
@recorded
def test_a_whole_response_gives_the_same_reply_as_the_stream(said: Recording, guarded: bool) -> None:
    whole = ask([said.whole], JSON, stream=False, guarded=guarded)
    made_a_stream = ask([said.whole], JSON, stream=True, guarded=guarded)

    reply, tokens = expected = at_once(said, guarded=guarded)
    assert whole_reply_in(whole, said) == expected
    assert reply_in(made_a_stream, stream=True) == expected
    assert (reply.finish, tokens) == (said.reply.finish, said.tokens)
    assert [call.arguments for call in reply.calls] == [call.arguments for call in said.reply.calls]


@recorded
def test_a_guarded_call_has_the_fields_that_clients_need_if_the_server_omits_them(said: Recording) -> None:
    body = ask([said.streamed], EVENTS, stream=True, guarded=True)

    reply, _ = reply_in(body, stream=True)

    assert b'"role":"assistant"' in body
    assert len({call.id for call in reply.calls if call.id}) == len(said.reply.calls)
