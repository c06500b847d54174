"""Requests under way: their phases as a follower sees them, and cancelling in each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from forge_proxy.core.backend_errors import BackendBroke, BackendFault
from forge_proxy.core.chat import ChatRequest, ModelCall, ModelCard, ToolSpec
from forge_proxy.core.errors import RequestCancelled
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.health import Health
from forge_proxy.core.requests.records import RequestOrigin
from forge_proxy.core.stream import CallDelta, Chunk, Delta, PromptProgress
from forge_proxy.engine.active_requests import ActiveRequests
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.events import Event, RequestAbandoned, RequestAnswered, RequestFailed
from tests.fakes.scripted import StillClock

LOOK = ToolSpec("look", {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]})
MESSAGES: Any = [{"role": "user", "content": "Look."}]
PLAIN = ChatRequest({"messages": MESSAGES}, stream=True)
_TOOL: Any = {"type": "function", "function": {"name": "look", "parameters": LOOK.parameters}}
GUARDED = ChatRequest({"messages": MESSAGES, "tools": [_TOOL]}, tools=(LOOK,), stream=True)
END = Chunk((Delta(finish="stop"),))


def text(words: str) -> Chunk:
    return Chunk((Delta(text=words),))


def call(arguments: str) -> Chunk:
    return Chunk((Delta(calls=(CallDelta(0, "c", "look", arguments),), finish="tool_calls"),))


class Stepwise:
    """A backend that sends a chunk when the test puts one into `steps`; None ends the response."""

    url = "http://model"

    def __init__(self) -> None:
        self.steps: asyncio.Queue[Chunk | BackendFault | None] = asyncio.Queue()
        self.is_reading = asyncio.Event()
        self.was_closed = False

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        try:
            while True:
                self.is_reading.set()
                step = await self.steps.get()
                if step is None:
                    return
                if isinstance(step, BackendFault):
                    raise step
                yield step
        except (asyncio.CancelledError, GeneratorExit):
            self.was_closed = True
            raise

    async def models(self) -> Sequence[ModelCard]:
        return []

    async def slots(self) -> int | None:
        return 1

    async def context_window(self, model: str | None = None) -> int | None:
        return None

    async def count_tokens(self, call: ModelCall) -> int | None:
        return None

    async def health(self) -> Health:
        return Health("ok")


class World:
    """An engine over such a backend with one slot, and clients that read everything."""

    def __init__(self, interval: float = 0.001) -> None:
        self.backend = Stepwise()
        self.heard: list[Event] = []
        self.active = ActiveRequests(interval=interval)
        self.admission = Admission(self.backend, StillClock(), self.heard.append, slots=1)
        self.engine = Engine(
            EngineConfig(self.backend, StillClock(), self.heard.append, admission=self.admission, active=self.active)
        )

    def send(self, request: ChatRequest, request_id: str = "r", client: str = "c") -> asyncio.Task[list[Any]]:
        """A client that sends a request and collects what it receives."""
        origin = RequestOrigin("chat_completions", "laptop", "aider/0.86")
        answer = self.engine.answer(request, GuardPolicy(), request_id=request_id, client=client, origin=origin)

        async def read() -> list[Any]:
            async with aclosing(answer):
                return [item async for item in answer]

        return asyncio.create_task(read())

    async def put(self, *steps: Chunk | BackendFault | None) -> None:
        """Let the backend send these, and wait until all are read."""
        for step in steps:
            self.backend.is_reading.clear()
            self.backend.steps.put_nowait(step)
            await settle()

    def shown(self) -> list[tuple[str, int, int]]:
        """Phase, attempt and tokens of each request."""
        return [(one.phase, one.attempt, one.output_tokens) for one in self.active.list()]


async def settle() -> None:
    """Let all tasks run as far as they come."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_phases_of_a_plain_stream() -> None:
    world = World()
    client = world.send(PLAIN)
    await settle()
    assert world.shown() == [("prefill", 1, 0)]

    await world.put(Chunk(progress=PromptProgress(40, 100)))
    (one,) = world.active.list()
    assert (one.phase, one.processed_tokens, one.prompt_tokens) == ("prefill", 40, 100)
    assert (one.surface, one.client, one.program) == ("chat_completions", "laptop", "aider/0.86")
    await world.put(text("One"), text(" two"))
    assert world.shown() == [("generating", 1, 2)]
    await world.put(END, None)
    await client

    assert world.shown() == []


async def test_the_phases_of_a_guarded_stream_that_is_retried() -> None:
    world = World()
    client = world.send(GUARDED)
    await settle()
    assert world.shown() == [("prefill", 1, 0)]
    await world.put(text("I will"), text(" look"))
    assert world.shown() == [("buffering", 1, 2)]

    await world.put(END, None)
    (one,) = world.active.list()
    assert (one.phase, one.attempt, one.faults) == ("retrying", 2, ("text",))
    await world.put(call('{"at": "it"}'), None)
    await client

    assert isinstance(world.heard[-1], RequestAnswered)


async def test_a_lost_response_is_a_retry_of_the_same_attempt() -> None:
    world = World()
    client = world.send(GUARDED)
    await settle()
    await world.put(BackendBroke("http://model", "reset"))

    assert world.shown() == [("retrying", 1, 0)]
    await world.put(call('{"at": "it"}'), None)
    await client


async def test_what_waits_has_a_place_in_the_queue_and_a_reason() -> None:
    world = World()
    running = world.send(PLAIN, "running")
    await settle()
    first, second = world.send(PLAIN, "first", "a"), world.send(PLAIN, "second", "b")
    await settle()

    assert [(one.request_id, one.phase, one.queue_position) for one in world.active.list()] == [
        ("running", "prefill", None),
        ("first", "queued", 1),
        ("second", "queued", 2),
    ]
    async with world.admission.pause():
        assert [one.phase for one in world.active.list()] == ["prefill", "loading", "loading"]
    for client in (running, first, second):
        client.cancel()
    await asyncio.wait([running, first, second])
    assert world.shown() == []


@pytest.mark.parametrize("request_", [PLAIN, GUARDED], ids=["plain", "guarded"])
@pytest.mark.parametrize("steps", [0, 2])
async def test_a_cancelled_request_ends_in_an_error_and_frees_its_slot(request_: ChatRequest, steps: int) -> None:
    world = World()
    client = world.send(request_)
    await settle()
    await world.put(*[text("One")] * steps)

    assert world.active.cancel("r") == 1
    with pytest.raises(RequestCancelled):
        await client

    assert world.backend.was_closed
    assert world.engine.queue.running == 0
    ends = [event for event in world.heard if isinstance(event, RequestFailed | RequestAbandoned | RequestAnswered)]
    assert [type(event) for event in ends] == [RequestFailed]
    assert ends[0].record.error == "the request was cancelled by the operator of forge-proxy"
    assert world.active.cancel("r") == 0


async def test_a_request_is_cancelled_while_it_waits_for_its_slot() -> None:
    world = World()
    running = world.send(PLAIN, "running")
    await settle()
    waiting = world.send(PLAIN, "waiting")
    await settle()

    assert world.active.cancel("waiting") == 1
    with pytest.raises(RequestCancelled):
        await waiting

    assert world.engine.queue.waiting == 0
    assert [one.request_id for one in world.active.list()] == ["running"]
    running.cancel()
    await asyncio.wait([running])


async def test_a_request_is_cancelled_while_its_client_reads_slowly() -> None:
    world = World()
    answer = world.engine.answer(PLAIN, GuardPolicy(), request_id="r")
    never = asyncio.Event()

    async def read_slowly() -> None:
        async with aclosing(answer):
            async for _ in answer:
                await never.wait()

    client = asyncio.create_task(read_slowly())
    await settle()
    await world.put(text("One"))
    world.active.cancel("r")

    with pytest.raises(RequestCancelled):
        await client
    assert world.backend.was_closed
    assert client.cancelling() == 0


async def test_a_client_that_disconnects_is_not_treated_as_a_cancelled_request() -> None:
    world = World()
    client = world.send(PLAIN)
    await settle()
    client.cancel()
    await asyncio.wait([client])

    assert client.cancelled()
    assert isinstance(world.heard[-1], RequestAbandoned)


async def test_a_follower_gets_pictures_while_requests_run_and_waits_while_none_does() -> None:
    world = World()
    pictures = world.active.follow()
    assert await anext(pictures) == []
    following = asyncio.ensure_future(anext(pictures))
    await asyncio.sleep(0.02)
    assert not following.done()

    client = world.send(PLAIN)
    first = await following
    assert [one.request_id for one in first] == ["r"]
    await settle()
    await world.put(text("One"))
    second = await anext(pictures)
    assert [one.output_tokens for one in second] == [1]
    await world.put(END, None)
    await client
    assert await anext(pictures) == []

    world.active.close()
    assert [picture async for picture in pictures] == []
    assert world.active.followers == 0


async def test_a_follower_gets_no_more_pictures_than_it_should() -> None:
    world, loop = World(interval=0.1), asyncio.get_running_loop()
    client = world.send(PLAIN)
    await settle()
    pictures = world.active.follow()
    began_at = loop.time()

    for _ in range(3):
        await anext(pictures)

    assert loop.time() - began_at >= 0.19
    await pictures.aclose()
    client.cancel()
    await asyncio.wait([client])
