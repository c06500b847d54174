"""`python -m tests.bench [--quick]`: the overhead of the daemon compared with direct requests and with bare relays.

Everything runs as real processes on loopback, which end with the benchmark. Under six minutes; `--quick`, a
minute.
"""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import argparse
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

import uvloop

from tests.bench import measures, report, store_cost
from tests.bench.asks import LATENCY, STREAMED_PIECES, STREAMS
from tests.bench.children import Setup, running_daemon, running_setup
from tests.bench.client_apis import CONVERSATIONS, client_api_latency, print_client_apis
from tests.bench.compaction import MESSAGES, compaction_times, request_time
from tests.bench.speed import rescue_speeds
from tests.bench.stall import longest_gaps

_CONNECTIONS = 16
_OPEN_STREAMS = 200
_SHORT, _LONG = 1000, 8000
_PACE_MS = 1.0
"""Seconds between pieces, so that each piece is read by itself, like the tokens of a model."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Number of requests in the full and in the quick benchmark."""

    latency_rounds: int
    stream_rounds: int
    spaced_pieces: int
    quick_pieces: int
    growth_rounds: int
    load_rounds: int
    load_seconds: float
    starts: int
    rescues: int
    store_pairs: int


FULL = Effort(500, 7, 1000, 2000, 5, 5, 0.7, 5, 5, store_cost.PAIRS)
QUICK = Effort(60, 3, 200, 2000, 1, 1, 0.2, 2, 1, 2)


async def measure(setup: Setup, effort: Effort) -> None:
    """Measure and print, table by table."""
    report.print_head(setup)
    report.print_latency(setup, [(ask, await measures.latency(setup, ask, effort.latency_rounds)) for ask in LATENCY])
    surfaces = [(ask, await client_api_latency(setup, ask, effort.latency_rounds)) for ask in CONVERSATIONS]
    print_client_apis(surfaces, report.CLIENT_API)
    spaced = await measures.stream_costs(setup, effort.spaced_pieces, _PACE_MS, effort.stream_rounds)
    report.print_stream_costs(spaced, STREAMS, f"{effort.spaced_pieces:,} of them, {_PACE_MS:g} ms apart")
    quick = await measures.stream_costs(setup, effort.quick_pieces, 0.0, effort.stream_rounds)
    report.print_stream_costs(quick, STREAMS, f"{effort.quick_pieces:,} of them, as fast as they go")
    grown = await measures.growth(setup, _SHORT, _LONG, effort.growth_rounds)
    report.print_growth(grown, _SHORT, _LONG)
    loads = [
        (ask, *await measures.throughput(setup, ask, _CONNECTIONS, effort.load_seconds, effort.load_rounds))
        for ask in LATENCY
    ]
    report.print_throughput(setup, loads, _CONNECTIONS)


async def measure_streams(setup: Setup) -> None:
    most = max([await measures.memory_with_streams(setup.daemon, ask, _OPEN_STREAMS) for ask in STREAMS])
    report.print_figure(f"memory with {_OPEN_STREAMS} open streams", most, "MB", report.STREAMS_MB)


def main() -> None:
    """Start everything, measure, end everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it works, not for figures")
    effort = QUICK if parser.parse_args().quick else FULL
    signal.signal(signal.SIGTERM, _leave)
    began = time.monotonic()
    with running_setup() as setup:
        idle, starts = [setup.daemon.memory()], [setup.daemon.ready_after]
        for _ in range(effort.starts - 1):
            with ExitStack() as stack:
                again = stack.enter_context(running_daemon(setup.backend))
                starts.append(again.ready_after)
                idle.append(again.memory())
        uvloop.run(measure(setup, effort))
        print(f"\nThe process, medians of {effort.starts} starts without a model, and searching text")
        report.print_figure("start until /healthz answers", median(starts), "s", report.START_SECONDS)
        report.print_figure("idle memory", median(idle), "MB", report.IDLE_MB)
        uvloop.run(measure_streams(setup))
    store_cost.run(effort.store_pairs)
    for what, speed in rescue_speeds(effort.rescues):
        report.print_figure(what, speed, "MB/s", report.RESCUE_MB_A_SECOND, at_least=True)
    print(f"\nShortening a history of {MESSAGES} messages")
    for what, seconds in compaction_times(effort.rescues):
        report.print_figure(what, 1e3 * seconds, "ms", report.COMPACTION_MS)
    report.print_figure("a caller's JSON", 1e3 * request_time(effort.rescues), "ms", report.REQUEST_COMPACTION_MS)
    print(
        "\nThe longest time the event loop stood still while an answer with 160 kB of broken JSON was taken and judged"
    )
    for what, gap in uvloop.run(longest_gaps(effort.rescues)):
        report.print_figure(what, 1e3 * gap, "ms", report.STALL_MS)
    print(f"\n{STREAMED_PIECES} pieces in each streamed answer above; {time.monotonic() - began:.0f} s in all")


def _leave(*_: object) -> None:
    sys.exit(1)  # through the contexts that end the started processes


if __name__ == "__main__":
    main()
