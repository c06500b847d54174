"""The head of a stream: it waits until there is something to send, so that an error before that has its real status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message

from forge_proxy.api.config import ServerConfig
from forge_proxy.api.streaming import StreamingAnswer
from forge_proxy.core.errors import EmptyAnswer
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.answer import AnswerEvent
from forge_proxy.wire.clients.chat_completions.encoder import ChatStreamEncoder
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.api.test_mistakes import ASK
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, chat

WORDS = Said(text="I would rather talk.")
NOTHING = Said()
NO_MESSAGE = Said(calls=(("get_weather", '{"days": "many"}'),))
BROKEN_OFF = Said(text="I would", breaks_off=True)
REQUEST = decode_request({**ASK, "stream": True})


@pytest.mark.parametrize(
    ("said", "more", "status", "code"),
    [
        (WORDS, {"tool_choice": "required"}, 502, "tool_choice_unsatisfied"),
        (NOTHING, {}, 502, "empty_answer"),
        (BROKEN_OFF, {}, 502, "backend_broke_off"),
    ],
    ids=["no call", "nothing", "broken off"],
)
async def test_an_error_after_all_retries_is_the_same_streamed_and_whole(
    said: Said, more: JsonDict, status: int, code: str
) -> None:
    answers = [await chat([said] * 9, {**ASK, **more}, stream=stream) for stream in (False, True)]

    assert [(answer.status, (answer.error or {})["code"]) for answer in answers] == [(status, code)] * 2
    assert answers[0].error == answers[1].error
    assert len(answers[1].asked) > 1


async def test_the_head_is_sent_with_the_first_event_before_the_verdict() -> None:
    going = asyncio.Event()

    async def answer() -> AsyncGenerator[AnswerEvent]:
        yield Chunk(head={"id": "chatcmpl-1"})
        yield Chunk((Delta(reasoning="Hm."),))
        await going.wait()

    sent = await sends(answer(), going, first_event_seconds=60)

    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert b'"id":"chatcmpl-1"' in sent[1]["body"]


async def test_the_head_is_sent_after_the_time_limit_if_nothing_can_be_sent_yet() -> None:
    going = asyncio.Event()

    async def answer() -> AsyncGenerator[AnswerEvent]:
        yield Chunk(head={"id": "chatcmpl-1"})
        await going.wait()

    sent = await sends(answer(), going, first_event_seconds=0.01)

    assert (sent[0]["type"], sent[0]["status"]) == ("http.response.start", 200)


async def test_an_error_after_the_head_ends_the_stream_without_a_second_one() -> None:
    going = asyncio.Event()

    async def answer() -> AsyncGenerator[AnswerEvent]:
        yield Chunk(head={"id": "chatcmpl-1"})
        await going.wait()
        raise EmptyAnswer(3)

    sent = await sends(answer(), going, first_event_seconds=0.01)

    assert [message["type"] for message in sent] == ["http.response.start"]


async def sends(
    answer: AsyncGenerator[AnswerEvent], going: asyncio.Event, *, first_event_seconds: float
) -> list[Message]:
    """What the application sends; `going` is set with the first message."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "http.response.body" or first_event_seconds < 1:
            going.set()

    async def receive() -> Message:
        return await asyncio.get_running_loop().create_future()

    live = StreamingAnswer(
        answer, ChatStreamEncoder(REQUEST, "r", 0), ServerConfig(first_event_seconds=first_event_seconds), {}
    )
    async with asyncio.timeout(30):
        await live({}, receive, send)
    return sent
