"""`python -m tests.bench.store_cost [--pairs N]`: what storing requests costs them, without their text and with it.

Three daemons before one model server that answers at once, on SQLite files of their own. Each pair measures two of them
in turn, beginning with the other one each time. Part of `make bench`; three minutes.
"""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from math import comb
from statistics import median
from tempfile import TemporaryDirectory

import uvloop

from tests.bench.asks import LATENCY, Ask
from tests.bench.children import Server, running_backend, running_daemon
from tests.bench.client import Connection, connections

MODES: Mapping[str, Mapping[str, str]] = {
    "off": {"FORGE_PROXY_STORE__REQUESTS": "false"},
    "records": {"FORGE_PROXY_STORE__REQUESTS": "true"},
    "text": {"FORGE_PROXY_STORE__CONTENT": "on"},
}
"""The settings of each daemon."""
COMPARED = (("records", "off"), ("text", "records"), ("text", "off"))
PAIRS = 12
BOUND = 1.05
"""Of the records, in their median. The text has none of its own: it is off unless someone wants it."""
_ASKS = (LATENCY[3], LATENCY[4])
_CONNECTIONS = 8
_REQUESTS = 60
_SECONDS = 0.6
_WRITTEN_SECONDS = 1.3
"""After which the records of all requests are written: the writer collects them for a second."""


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval of at least 95 % for the median, by the order of the values: it assumes no distribution."""
    ordered, count = sorted(values), len(values)
    outside, rank = 0.0, 0
    while rank < count // 2:
        outside += comb(count, rank) / 2**count
        if 2 * outside > 0.05:
            break
        rank += 1
    low = max(0, rank - 1)
    return ordered[low], ordered[count - 1 - low]


async def measure_latency(server: Server, request: bytes) -> float:
    """Return the median of the seconds to the last byte, one request after the other."""
    async with connections(server.port, 1) as [connection]:
        await connection.ask(request)
        return median([(await connection.ask(request)).last for _ in range(_REQUESTS)])


async def measure_seconds_each(server: Server, request: bytes) -> float:
    """Return the seconds for each request over several connections."""
    async with connections(server.port, _CONNECTIONS) as opened:
        await asyncio.gather(*(connection.ask(request) for connection in opened))
        began = time.perf_counter()

        async def repeat(connection: Connection) -> int:
            done = 0
            while time.perf_counter() - began < _SECONDS:
                await connection.ask(request)
                done += 1
            return done

        done = sum(await asyncio.gather(*map(repeat, opened)))
        return (time.perf_counter() - began) / done


async def measure_cpu(server: Server, request: bytes) -> float:
    """Return the CPU seconds for each request, with the writing of its record. Other load matters least here."""
    async with connections(server.port, 1) as [connection]:
        await connection.ask(request)
        before = server.cpu_seconds()
        for _ in range(_REQUESTS):
            await connection.ask(request)
        await asyncio.sleep(_WRITTEN_SECONDS)
        return (server.cpu_seconds() - before) / _REQUESTS


async def compare(servers: Mapping[str, Server], ask: Ask, pairs: int) -> None:
    """Print the ratios of one kind of request."""
    for server in servers.values():
        async with connections(server.port, 1) as [connection]:
            ask.check(await connection.ask(ask.request()), by_daemon=True)
    for what, measure in _MEASURES:
        taken: dict[str, list[float]] = {name: [] for name in servers}
        for number in range(pairs):
            names = list(servers)
            for name in names if number % 2 else reversed(names):
                taken[name].append(await measure(servers[name], ask.request()))
        for name, base in COMPARED:
            ratios = [one / other for one, other in zip(taken[name], taken[base], strict=True)]
            low, high = median_interval(ratios)
            times = f"{1e3 * median(taken[base]):.2f} → {1e3 * median(taken[name]):.2f} ms"
            bound = (
                f", bound ≤ {BOUND}: {'kept' if median(ratios) <= BOUND else 'OVER'}"
                if (name, what) == ("records", "latency")
                else ""
            )
            ratio = f"{name} / {base}: {median(ratios):.3f} ({low:.3f} to {high:.3f})"
            print(f"  {ask.label}, {what}: {ratio}, {times}{bound}", flush=True)


_MEASURES = (("latency", measure_latency), ("under load", measure_seconds_each), ("CPU", measure_cpu))


def run(pairs: int) -> None:
    """Start the daemons, measure, and print."""
    print(f"\nStoring requests: ratios of {pairs} alternating pairs, median and interval of 95 %")
    with ExitStack() as stack:
        backend = stack.enter_context(running_backend())
        servers: dict[str, Server] = {}
        for name, settings in MODES.items():
            folder = stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True))
            servers[name] = stack.enter_context(running_daemon(backend, {"XDG_STATE_HOME": folder, **settings}))
        for ask in _ASKS:
            uvloop.run(compare(servers, ask, pairs))


def main() -> None:
    """Run the benchmark alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    run(parser.parse_args().pairs)


if __name__ == "__main__":
    main()
