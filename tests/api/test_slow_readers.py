"""Connections whose client reads nothing: how long they last, and the memory they are charged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from starlette.types import Message
from uvicorn.server import ServerState

from forge_proxy.api.config import ServerConfig
from forge_proxy.api.connections import ConnectionLimits, ConnectionSupervisor, WaitingFor
from forge_proxy.api.error_responses import ErrorEnvelopes
from forge_proxy.api.protocol import HttpConnection, http_protocol
from forge_proxy.api.server import HttpServer
from forge_proxy.api.streaming import StreamingAnswer
from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.answer import AnswerEvent
from forge_proxy.engine.memory import MEGABYTE, MemoryBudget
from forge_proxy.wire.clients.chat_completions.encoder import ChatStreamEncoder
from forge_proxy.wire.clients.chat_completions.errors import encode_error
from forge_proxy.wire.clients.chat_completions.request import decode_request

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SEND_SECONDS = 60.0
ENVELOPES = ErrorEnvelopes({}, encode_error)


class Client(asyncio.Transport):
    """A transport to a client that reads only as much as the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.unread = 0
        self.aborted = False

    def write(self, data: Any) -> None:
        self.unread += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default

    def is_closing(self) -> bool:
        return self.aborted

    def close(self) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True


class Connected:
    """A connection to such a client, with responses of the size that the test sets."""

    def __init__(self, size: int) -> None:
        self.memory = MemoryBudget(100 * MEGABYTE)
        self.supervisor = ConnectionSupervisor(ConnectionLimits(65536, send_seconds=SEND_SECONDS), memory=self.memory)
        self.more = asyncio.Event()
        self._size = size
        config = uvicorn.Config(self._answer, interface="asgi3", log_config=None, access_log=False, lifespan="off")
        made = http_protocol(self.supervisor, ENVELOPES)(config, ServerState(), {})
        assert isinstance(made, HttpConnection)
        self.protocol: HttpConnection = made
        self.client = Client()
        self.protocol.connection_made(self.client)

    async def ask(self) -> None:
        """Send a request and wait until the response is written."""
        self.protocol.data_received(GET)
        for _ in range(5):
            await asyncio.sleep(0)

    def close_overdue(self, now: float) -> None:
        self.supervisor.close_overdue([self.protocol], now)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"x" * self._size, "more_body": True})
        await self.more.wait()
        await send({"type": "http.response.body", "body": b": keep-alive\n\n", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_client_that_reads_nothing_is_aborted_after_the_timeout_and_counted() -> None:
    connected = Connected(1000)
    await connected.ask()
    began = now()
    connected.close_overdue(began)
    connected.close_overdue(began + SEND_SECONDS - 1)
    assert not connected.client.aborted

    connected.close_overdue(began + SEND_SECONDS + 1)
    assert connected.client.aborted
    assert connected.supervisor.aborted_readers == 1


async def test_an_idle_connection_is_kept_for_longer_than_clients_keep_theirs() -> None:
    connected = Connected(1000)
    connected.more.set()
    await connected.ask()
    connected.client.unread = 0
    began = now()

    connected.close_overdue(began)
    connected.close_overdue(began + 100)
    assert not connected.client.aborted

    connected.close_overdue(began + 121)
    assert connected.client.aborted


def test_uvicorn_keeps_idle_connections_as_long() -> None:
    app = FastAPI()
    app.state.error_envelopes = ENVELOPES
    server = HttpServer(app, ServerConfig())

    assert server.config.timeout_keep_alive == ConnectionLimits(1).idle_seconds


async def test_many_slow_readers_are_aborted_a_few_at_a_time() -> None:
    """The megabytes that the operating system holds for each of them take time to free."""
    all_connected = [Connected(1000) for _ in range(40)]
    supervisor = all_connected[0].supervisor
    protocols = [connected.protocol for connected in all_connected]
    for connected in all_connected:
        await connected.ask()
    began = now()
    supervisor.close_overdue(protocols, began)

    aborted_so_far: list[int] = []
    while supervisor.close_overdue(protocols, began + SEND_SECONDS + 1):
        protocols = [connected.protocol for connected in all_connected if not connected.client.aborted]
        aborted_so_far.append(supervisor.aborted_readers)

    assert aborted_so_far == [16, 32]
    assert supervisor.aborted_readers == 40


async def test_buffering_more_data_is_not_progress() -> None:
    connected = Connected(1000)
    await connected.ask()
    began = now()
    connected.close_overdue(began)
    connected.more.set()
    await asyncio.sleep(0.01)
    assert connected.client.unread > 1000
    connected.close_overdue(began + SEND_SECONDS + 1)

    assert connected.client.aborted


async def test_one_byte_that_is_delivered_is_progress() -> None:
    connected = Connected(1000)
    await connected.ask()
    began = now()
    for seconds in range(0, 1000, 50):
        connected.client.unread -= 1
        connected.close_overdue(began + seconds)

    assert not connected.client.aborted


async def test_a_client_that_still_reads_a_complete_response_is_not_overdue_with_its_next_request() -> None:
    connected = Connected(1000)
    connected.more.set()
    await connected.ask()
    began = now()
    for seconds in range(0, 30, 5):
        connected.client.unread -= 1
        connected.close_overdue(began + seconds)
    assert not connected.client.aborted

    connected.client.unread = 0
    connected.close_overdue(began + 31)
    connected.close_overdue(began + 42)
    assert not connected.client.aborted
    connected.close_overdue(began + 152)
    assert connected.client.aborted  # it was idle for longer than connections are kept
    assert connected.supervisor.aborted_readers == 0


@pytest.mark.parametrize("size", [1000, 10 * MEGABYTE])
async def test_what_is_buffered_counts_until_it_is_read_or_the_connection_ends(size: int) -> None:
    connected = Connected(size)
    await connected.ask()
    connected.close_overdue(now())
    assert connected.memory.used == connected.client.unread >= size

    connected.client.unread = 500
    connected.protocol.resume_writing()
    assert connected.memory.used == 500
    connected.protocol.connection_lost(None)
    assert connected.memory.used == 0


async def test_a_large_amount_is_counted_at_once() -> None:
    connected = Connected(1000)
    await connected.ask()
    connected.client.unread = 70_000
    connected.protocol.pause_writing()

    assert connected.memory.used == 70_000


async def test_readers_that_have_paused_only_now_are_not_closed_for_new_connections() -> None:
    connected = Connected(1000)
    await connected.ask()
    limits = ConnectionLimits(65536, connections=0)
    supervisor = ConnectionSupervisor(limits)
    began = now()

    assert connected.protocol.waiting(began) == (WaitingFor.READER, began)
    assert not supervisor.has_room([connected.protocol], began + 5)
    assert supervisor.has_room([connected.protocol], began + 11)
    assert connected.client.aborted


class StalledClient:
    """Receives the first part of a stream, and the rest once `resumed` is set; uvicorn waits likewise."""

    def __init__(self) -> None:
        self.received: list[Message] = []
        self.stalled = asyncio.Event()
        self.resumed = asyncio.Event()

    async def send(self, message: Message) -> None:
        if len(self.received) == 2:  # the head and the first part
            self.stalled.set()
            await self.resumed.wait()
        await asyncio.sleep(0)  # another task may send meanwhile
        self.received.append(message)


async def _send_one_long_event(client: StalledClient, **settings: float) -> None:
    """Stream one event of a megabyte."""

    async def answer() -> AsyncGenerator[AnswerEvent]:
        yield Chunk((Delta(text="x" * MEGABYTE),))
        yield Report(Outcome.PASSTHROUGH)

    async def receive() -> Message:
        return await asyncio.get_running_loop().create_future()

    request = decode_request({"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True})
    config = ServerConfig.model_validate({"first_event_seconds": 0.01, **settings})
    await StreamingAnswer(answer(), ChatStreamEncoder(request, "r", 0), config, {})({}, receive, client.send)


async def test_of_a_long_event_only_a_part_is_buffered_for_a_client_that_reads_nothing() -> None:
    client = StalledClient()
    sending = asyncio.create_task(_send_one_long_event(client))
    await client.stalled.wait()
    sending.cancel()

    assert len(client.received[1]["body"]) <= MEGABYTE // 4
    assert client.received[1]["more_body"]


async def test_no_keepalive_ends_up_inside_a_long_event() -> None:
    client = StalledClient()
    sending = asyncio.create_task(_send_one_long_event(client, keepalive_seconds=0.01))
    await client.stalled.wait()
    await asyncio.sleep(0.1)  # time for ten keep-alives
    client.resumed.set()
    await sending

    stream = b"".join(message["body"] for message in client.received[1:])
    event = json.loads(stream.partition(b"\n\n")[0].removeprefix(b"data: "))
    assert event["choices"][0]["delta"]["content"] == "x" * MEGABYTE
    assert stream.endswith(b"data: [DONE]\n\n")
