"""The measurements. Each sends requests to all servers in turn, so that other load on the machine affects all."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from statistics import median

from tests.bench.asks import PASS_THROUGH, STREAMS, Ask
from tests.bench.children import Server, Setup
from tests.bench.client import Connection, connections

Samples = dict[str, list[float]]
"""By the server's name."""
_SETTLE_SECONDS = 0.02
_BLOCKS = 5


async def latency(setup: Setup, ask: Ask, rounds: int) -> Samples:
    """Seconds to the last byte. Each round sends one request to each server, each time beginning with another one."""
    request = ask.request()
    taken: Samples = {server.name: [] for server in setup.all}
    async with AsyncExitStack() as stack:
        kept = {s.name: (await stack.enter_async_context(connections(s.port, 1)))[0] for s in setup.all}
        for server in setup.all:
            ask.check(await kept[server.name].ask(request), by_daemon=server is setup.daemon)
        names = list(kept)
        for number in range(-rounds // 10, rounds):  # the first ones are for warming up
            turn = number % len(names)
            for name in (*names[turn:], *names[:turn]):
                answer = await kept[name].ask(request)
                if number >= 0:
                    taken[name].append(answer.last)
    return taken


Figure = Callable[[Sequence[float]], float]
"""The statistic of samples: their median, or `p99`."""


def p99(samples: Sequence[float]) -> float:
    """Return the value that one in a hundred exceeds; the largest of fewer than a hundred."""
    return sorted(samples)[math.ceil(0.99 * len(samples)) - 1]


def added(samples: Samples, name: str, base: str = "direct", figure: Figure = median) -> float:
    """Return the ratio of a server's median, or other statistic, to that of direct requests."""
    return figure(samples[name]) - figure(samples[base])


def spread(samples: Samples, name: str, reference: str, figure: Figure = median) -> tuple[float, float]:
    """Return the smallest and the largest ratio of what two servers add, over parts of the run."""
    size = len(samples[name]) // _BLOCKS
    blocks = [{key: taken[at * size :][:size] for key, taken in samples.items()} for at in range(_BLOCKS)]
    ratios = [added(block, name, figure=figure) / added(block, reference, figure=figure) for block in blocks]
    return min(ratios), max(ratios)


async def cpu_per_piece(server: Server, ask: Ask, pieces: int, times: int) -> float:
    """Return the seconds of the server's CPU for each piece of a long stream, without those of the request itself."""
    async with connections(server.port, 1) as [connection]:
        base = await _cpu_of(server, connection, replace(ask, pieces=1, pace_ms=0), 20)
        return (await _cpu_of(server, connection, replace(ask, pieces=pieces), times) - base) / (pieces - 1)


async def stream_costs(setup: Setup, pieces: int, pace_ms: float, rounds: int) -> Samples:
    """CPU seconds for each piece: of the backend that writes it, of the relay, and of the daemon by kind of stream."""
    asked = [(setup.backend, "direct", PASS_THROUGH), (setup.relay, "relay", PASS_THROUGH)]
    asked += [(setup.daemon, ask.label, ask) for ask in STREAMS]
    costs: Samples = {label: [] for _, label, _ in asked}
    for _ in range(rounds):
        for server, label, ask in asked:
            costs[label].append(await cpu_per_piece(server, replace(ask, pace_ms=pace_ms), pieces, 1))
    return costs


async def growth(setup: Setup, short: int, long: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Return the CPU seconds for each piece in short and in long streams of the daemon, with equal totals of pieces."""
    grown: dict[str, tuple[float, float]] = {}
    for ask in STREAMS:
        pairs = [
            (
                await cpu_per_piece(setup.daemon, ask, short, long // short),
                await cpu_per_piece(setup.daemon, ask, long, 1),
            )
            for _ in range(rounds)
        ]
        grown[ask.label] = (median(a for a, _ in pairs), median(b for _, b in pairs))
    return grown


async def _cpu_of(server: Server, connection: Connection, ask: Ask, times: int) -> float:
    request = ask.request()
    short = replace(ask, pieces=1)
    short.check(await connection.ask(short.request()), by_daemon=server.name == "daemon")
    await asyncio.sleep(_SETTLE_SECONDS)
    before = server.cpu_seconds()
    for _ in range(times):
        await connection.ask(request)
    await asyncio.sleep(_SETTLE_SECONDS)
    return (server.cpu_seconds() - before) / times


async def throughput(setup: Setup, ask: Ask, count: int, seconds: float, rounds: int) -> tuple[Samples, Samples]:
    """Return the requests per second over this many connections, and the CPU seconds for each request, by server."""
    rates: Samples = {server.name: [] for server in setup.all}
    costs: Samples = {server.name: [] for server in setup.all}
    for _ in range(rounds):
        for server in setup.all:
            rate, cost = await _load(server, ask.request(), count, seconds)
            rates[server.name].append(rate)
            costs[server.name].append(cost)
    return rates, costs


async def _load(server: Server, request: bytes, count: int, seconds: float) -> tuple[float, float]:
    async with connections(server.port, count) as kept:
        await asyncio.gather(*(connection.ask(request) for connection in kept))
        cpu, began = server.cpu_seconds(), time.perf_counter()

        async def repeat(connection: Connection) -> int:
            done = 0
            while time.perf_counter() - began < seconds:
                await connection.ask(request)
                done += 1
            return done

        done = sum(await asyncio.gather(*(repeat(connection) for connection in kept)))
        return done / (time.perf_counter() - began), (server.cpu_seconds() - cpu) / done


async def memory_with_streams(server: Server, ask: Ask, count: int) -> float:
    """Return the resident memory in MB while this many streams are open."""
    request = replace(ask, pieces=40, pace_ms=50).request()
    async with connections(server.port, count) as kept:
        asking = [asyncio.create_task(connection.ask(request)) for connection in kept]
        await asyncio.sleep(1.0)
        most = server.memory()
        await asyncio.gather(*asking)
    return most
