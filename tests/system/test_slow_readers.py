"""Clients of a real daemon that read their response slowly or not at all."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.fakes.processes import Process, daemon
from tests.system.asking import PATH
from tests.system.test_large_bodies import port_of

MEGABYTE = 1024 * 1024
PIECE = 32 * 1024
TOOL = {"type": "function", "function": {"name": "write", "parameters": {"type": "object"}}}
LONG = 8 * MEGABYTE
"""More bytes than the sockets between client and daemon buffer."""
TEXT = " ".join(random.Random(7).choices([f"word{number}" for number in range(1000)], k=LONG // 8))
"""About as many, without repetition."""
LONG_MB = len(TEXT) / MEGABYTE
IMPATIENT = {
    "FORGE_PROXY_SERVER__SEND_TIMEOUT_SECONDS": "2",
    "FORGE_PROXY_SERVER__HEADER_TIMEOUT_SECONDS": "1",
    "FORGE_PROXY_SERVER__KEEPALIVE_SECONDS": "0.5",
}


@dataclass
class LongWinded:
    """A model server with long responses: a call if there are tools, else a stream without end or a whole `TEXT`."""

    port: int = 0
    written: list[int] = field(default_factory=list)
    """Bytes of each stream so far."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
            asked = json.loads(await reader.readexactly(int(fields.get(b"content-length", b"0"))) or b"{}")
            if asked.get("stream"):
                await self._stream(writer, endless="tools" not in asked)
            else:
                body = b'{"data": [{"id": "m"}]}'
                if head.startswith(b"POST"):
                    body = WHOLE_CALL if "tools" in asked else WHOLE
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _stream(self, writer: asyncio.StreamWriter, *, endless: bool) -> None:
        place = len(self.written)
        self.written.append(0)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        at = 0
        while endless:
            event = to_event({"content": TEXT[at % len(TEXT) :][:PIECE]}, None)
            at += PIECE
            writer.write(event)
            await writer.drain()
            self.written[place] += len(event)
        writer.write(to_event(CALL, None) + to_event({}, "tool_calls") + b"data: [DONE]\n\n")
        await writer.drain()


def completion(kind: str, message: dict[str, Any], finish: str | None) -> dict[str, Any]:
    choice = {"index": 0, kind: {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


WHOLE = json.dumps(completion("message", {"content": TEXT}, "stop")).encode()
FUNCTION = {"name": "write", "arguments": json.dumps({"text": TEXT})}
CALL = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": FUNCTION}]}
WHOLE_CALL = json.dumps(completion("message", CALL, "tool_calls")).encode()


def to_event(delta: dict[str, Any], finish: str | None) -> bytes:
    return b"data: %b\n\n" % json.dumps(completion("delta", delta, finish)).encode()


@asynccontextmanager
async def long_winded() -> AsyncGenerator[LongWinded]:
    model = LongWinded()
    server = await asyncio.start_server(model.answer, "127.0.0.1", 0)
    model.port = server.sockets[0].getsockname()[1]
    try:
        yield model
    finally:
        server.close()


@contextmanager
def impatient(model: LongWinded) -> Generator[Process]:
    with daemon("--backend", "openai", "--backend-url", f"http://127.0.0.1:{model.port}", env=IMPATIENT) as proxy:
        yield proxy


@contextmanager
def asking(proxy: Process, **fields: object) -> Generator[socket.socket]:
    """A connection with a small buffer on which a request was sent."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "go"}], **fields}).encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        connection.settimeout(30)
        connection.connect(("127.0.0.1", port_of(proxy)))
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode() + body)
        yield connection


async def status(proxy: Process) -> dict[str, Any]:
    async with httpx.AsyncClient(timeout=30) as client:
        return (await client.get(f"{proxy.url}/admin/v1/status")).json()


async def until_idle(proxy: Process) -> dict[str, Any]:
    """Return the status once nothing runs and nothing is buffered."""
    now: dict[str, Any] = {}
    for _ in range(600):
        now = await status(proxy)
        if now["queue"]["running"] == 0 and now["memory"]["used_mb"] == 0:
            return now
        await asyncio.sleep(0.05)
    raise AssertionError(f"never idle: {now}")


async def test_clients_that_never_read_are_disconnected_and_their_memory_returned() -> None:
    """One client in each mode, all at once: they wait for the same limit."""
    modes = [{"stream": stream, **tools} for stream in (True, False) for tools in ({}, {"tools": [TOOL]})]
    async with long_winded() as model:
        with impatient(model) as proxy, ExitStack() as stack:
            connections = [stack.enter_context(asking(proxy, **mode)) for mode in modes]
            said = await asyncio.to_thread(proxy.wait_for, "slow reader aborted")
            await until_idle(proxy)
            received = [read_rest(connection) for connection in connections]

    assert "server.send_timeout_seconds" in said["error"]
    assert max(received) < len(TEXT), "all are cut"
    assert TEXT[:20] not in proxy.printed
    assert "Traceback" not in proxy.printed


def read_rest(connection: socket.socket) -> int:
    """Return how many bytes arrive before the end of the connection."""
    size = 0
    with suppress(ConnectionResetError):
        while piece := connection.recv(64 * 1024):
            size += len(piece)
    return size


async def test_unread_output_counts_and_is_not_read_from_the_model_server() -> None:
    async with long_winded() as model:
        settings = {**IMPATIENT, "FORGE_PROXY_SERVER__SEND_TIMEOUT_SECONDS": "600"}
        url = f"http://127.0.0.1:{model.port}"
        with daemon("--backend", "openai", "--backend-url", url, env=settings) as proxy:
            with asking(proxy, stream=True), asking(proxy, stream=False):
                looks: list[tuple[float, int]] = []
                while len(looks) < 200 and (len(looks) < 10 or len(set(looks[-10:])) > 1 or looks[-1][0] < LONG_MB):
                    looks.append(((await status(proxy))["memory"]["used_mb"], sum(model.written)))
                    await asyncio.sleep(0.1)
            await until_idle(proxy)

    held, written = looks[-1]
    assert len(set(looks[-10:])) == 1, "the stream goes on"
    assert LONG_MB < held < LONG_MB + 2
    assert written < 64 * MEGABYTE


async def test_a_client_that_reads_slowly_gets_the_whole_response() -> None:
    def read(connection: socket.socket) -> int:
        size = 0
        while piece := connection.recv(64 * 1024):
            size += len(piece)
            pause.wait(len(piece) / (2 * MEGABYTE))
        return size

    pause = threading.Event()
    async with long_winded() as model:
        with impatient(model) as proxy, asking(proxy, stream=False) as connection:
            size = await asyncio.to_thread(read, connection)
    assert size > len(TEXT)
