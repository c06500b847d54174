"""High load: streams, idle connections, clients that disconnect, clients that do not read, and a soak."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress

from tests.attack.attack import Attack
from tests.attack.target import CHAT, TOOL, Target, ask, head, wait_until

_SOAK_SECONDS = float(os.environ.get("FORGE_ATTACK_SOAK_SECONDS", "600"))
_BOUNDED = {"FORGE_PROXY_SERVER__MEMORY_MB": "200"}
"""The daemon's own bound, which is below the growth that the suite allows: an allocator never keeps it exactly."""
_SPARE_DESCRIPTORS = 30
"""Connections that the daemon may keep open for later, to its model server and of the honest client."""


def _request(model: str, **fields: object) -> bytes:
    raw = json.dumps(ask(model, **fields)).encode()
    return head("POST", CHAT, "Content-Type: application/json", f"Content-Length: {len(raw)}") + raw


async def _open(target: Target) -> tuple[StreamReader, StreamWriter]:
    return await asyncio.wait_for(asyncio.open_connection(target.host, target.port), 30)


async def _ask(target: Target, data: bytes, seconds: float = 120) -> bytes:
    """Return the whole response to a request with `Connection: close`."""
    reader, writer = await _open(target)
    try:
        writer.write(data.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
        return await asyncio.wait_for(reader.read(), seconds)
    finally:
        writer.close()


def _at_once(count: int, act: Callable[[int], Awaitable[bytes]]) -> list[bytes | BaseException]:
    async def all_of_them() -> list[bytes | BaseException]:
        return await asyncio.gather(*(act(number) for number in range(count)), return_exceptions=True)

    return asyncio.run(all_of_them())


def _many_streams(target: Target) -> None:
    data = _request("says", stream=True, tools=[TOOL])
    answers = _at_once(500, lambda _: _ask(target, data))
    whole = [one for one in answers if isinstance(one, bytes) and b"[DONE]" in one]
    busy = [one for one in answers if isinstance(one, bytes) and b" 429 " in one[:20]]
    odd = [one for one in answers if one not in whole and one not in busy]
    assert not odd, f"{len(odd)} of 500 streams ended otherwise, the first with {odd[0]!r:.160}"
    assert whole, "no stream was answered"


def _idle_connections(target: Target) -> None:
    async def hold() -> None:
        held = [await _open(target) for _ in range(2000)]
        await asyncio.sleep(3)
        for _, writer in held:
            writer.close()

    asyncio.run(hold())
    target.is_well()


def _leaving_clients(target: Target) -> None:
    """10,000 requests whose client disconnects at a random moment. Afterwards the daemon is in its initial state."""
    target.is_well()
    files, memory = target.descriptors(), target.memory_mb()
    chooser = random.Random(7)
    requests = [
        _request(model, stream=stream, **({"tools": [TOOL]} if guarded else {}))
        for model in ("says", "hangs", "stalls", "loops")
        for stream in (True, False)
        for guarded in (True, False)
    ]

    async def leave(number: int) -> None:
        reader, writer = await _open(target)
        data = requests[number % len(requests)]
        writer.write(data[: chooser.randrange(1, len(data) + 1)] if number % 4 == 0 else data)
        with suppress(TimeoutError, OSError):
            await asyncio.wait_for(reader.read(100), chooser.choice((0.001, 0.01, 0.05)))
        writer.transport.abort()

    async def all_of_them() -> None:
        turns = asyncio.Semaphore(64)

        async def one(number: int) -> None:
            async with turns:
                with suppress(OSError):
                    await leave(number)

        await asyncio.gather(*map(one, range(10_000)))

    asyncio.run(all_of_them())
    wait_until(lambda: target.queue()["running"] == 0, "the slots of clients that left are free")
    wait_until(lambda: target.descriptors() <= files + _SPARE_DESCRIPTORS, "descriptors are closed")
    grown = target.memory_mb() - memory
    assert grown < 100, f"memory is {grown:.0f} MB more than before 10,000 aborted requests"
    target.is_well()


def _never_reading(target: Target) -> None:
    """Clients that never read: endless streams, and large responses, streamed and whole, with tools and without.

    They are disconnected although they keep their connection open, and none of their bytes stay in the memory budget.
    """
    kinds = [
        _request("loops", stream=True),
        *(
            _request("says-much", stream=stream, **tools)
            for stream in (True, False)
            for tools in ({}, {"tools": [TOOL]})
        ),
    ]
    with ExitStack() as stack:
        for number in range(100):
            connection = stack.enter_context(target.connected())
            connection.sendall(kinds[number % len(kinds)])
        wait_until(lambda: '"slow reader aborted"' in target.proxy.printed, "a slow reader is aborted", 120)
        wait_until(lambda: _is_idle(target), "nobody is served and the account of memory is empty", 120)


def _reading_a_byte_a_second(target: Target) -> None:
    """Clients that read a byte a second for twenty seconds. Others are answered meanwhile."""
    with ExitStack() as stack:
        connections: list[socket.socket] = []
        for number in range(100):
            connection = stack.enter_context(target.connected())
            connection.sendall(_request("says-much", stream=number % 2 == 0))
            connections.append(connection)
        for _ in range(20):
            for connection in connections:
                with suppress(OSError):
                    connection.recv(1)
            time.sleep(1)
        target.is_well()
    wait_until(lambda: _is_idle(target), "nobody is served and the account of memory is empty", 60)


def _is_idle(target: Target) -> bool:
    status = target.status()
    return status["queue"]["running"] == 0 and status["memory"]["used_mb"] == 0


def _soak(target: Target) -> None:
    """Honest and malicious requests in turn, for ten minutes; memory and descriptors do not grow."""
    mixed = [
        _request("says", stream=True, tools=[TOOL]), _request("says", tools=[TOOL]), _request("says", stream=True),
        _request("calls-brokenly", tools=[TOOL]), _request("dies", stream=True, tools=[TOOL]),
        _request("babbles", tools=[TOOL]), _request("overflows", tools=[TOOL]), _request("closes", tools=[TOOL]),
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", b"garbage\r\n\r\n",
    ]  # fmt: skip
    end = time.monotonic() + _SOAK_SECONDS
    settled: list[float] = []

    async def client(number: int) -> None:
        turn = number
        while time.monotonic() < end:
            turn += 1
            with suppress(OSError):
                await _ask(target, mixed[turn % len(mixed)])

    async def watch() -> None:
        await asyncio.sleep(_SOAK_SECONDS / 4)
        settled.append(target.memory_mb())

    async def all_of_them() -> None:
        await asyncio.gather(watch(), *map(client, range(8)))

    asyncio.run(all_of_them())
    wait_until(lambda: target.queue()["running"] == 0, "all slots are free")
    grown = target.memory_mb() - settled[0]
    assert grown < 30, f"memory grew by {grown:.0f} MB in the last three quarters of the soak"
    target.is_well()


ATTACKS = [
    Attack("500 guarded streams at once", "load", _many_streams, settings={"FORGE_PROXY_BACKEND__QUEUE_LIMIT": "1000"}),
    Attack("2,000 idle connections", "load", _idle_connections),
    Attack("10,000 aborted requests", "load", _leaving_clients),
    Attack(
        "100 readers that never read",
        "load",
        _never_reading,
        settings={"FORGE_PROXY_SERVER__SEND_TIMEOUT_SECONDS": "5", **_BOUNDED},
    ),
    Attack("100 readers of a byte a second", "load", _reading_a_byte_a_second, settings=_BOUNDED),
    Attack(f"a soak of {_SOAK_SECONDS / 60:g} minutes", "load", _soak),
]
