"""The tables that `python -m tests.bench` prints, and the bounds of the figures."""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench.asks import Ask
from tests.bench.children import Setup
from tests.bench.measures import Figure, Samples, added, p99, spread


@dataclass(frozen=True, slots=True)
class Bound:
    """Limits of the daemon's overhead: a multiple of the relay's, and µs more for each streamed piece."""

    times: float
    per_piece: float


PASS_THROUGH = Bound(1.2, 10)
GUARDED = Bound(1.5, 20)
CLIENT_API = 1.15
"""Limit of another client API's overhead, as a multiple of that of chat completions on the same conversation."""
THROUGHPUT = 0.5
GROWTH = 1.1
IDLE_MB, STREAMS_MB = 100, 200
START_SECONDS = 1.5
RESCUE_MB_A_SECOND = 20
COMPACTION_MS, REQUEST_COMPACTION_MS = 1, 5
STALL_MS = 50


def bound_of(ask: Ask) -> Bound:
    return GUARDED if ask.tools else PASS_THROUGH


def print_head(setup: Setup) -> None:
    print(
        f"CPython {platform.python_version()}, {os.cpu_count()} cores. Ratios compare figures taken in turn within this"
    )
    print(
        "run; what is in µs, MB or requests/s is of this machine now. 'Relay' is the bare relay with the daemon's own"
    )
    print(f"HTTP client, {setup.relay.name}.")


def print_latency(setup: Setup, taken: Sequence[tuple[Ask, Samples]]) -> None:
    """Print medians, and the 99th percentile, against the same limit."""
    count = len(taken[0][1]["direct"])
    _print_latency(setup, taken, f"medians of {count}", median)
    _print_latency(setup, taken, f"99th percentiles of {count}", p99)


def _print_latency(setup: Setup, taken: Sequence[tuple[Ask, Samples]], what: str, figure: Figure) -> None:
    """Print a line for each kind of request: direct, the overhead of each relay and of the daemon, and their ratio."""
    names = [server.name for server in setup.all]
    print(f"\nLatency to the last byte, {what}, µs: direct, then what is added to it")
    print(f"{'':31}" + "".join(f"{name:>14}" for name in names) + "  daemon/relay (fifths)  bound")
    for ask, samples in taken:
        over = {name: added(samples, name, figure=figure) for name in names[1:]}
        figures = f"{us(figure(samples['direct'])):14}" + "".join(f"{us(over[name]):+14}" for name in names[1:])
        ours, relays = over["daemon"], over[setup.relay.name]
        low, high = spread(samples, "daemon", setup.relay.name, figure)
        bound = bound_of(ask)
        # the backend streams a guarded response, whatever the client requested
        pieces = ask.pieces if ask.stream or ask.tools else 0
        allowed = bound.times * us(relays) + bound.per_piece * pieces
        rule = f"{bound.times}x" + (f" + {pieces}x{bound.per_piece:g}" if pieces else "")
        ratio = f"{ours / relays:.2f} ({low:.2f}-{high:.2f})"
        print(f"{ask.label:31}{figures}  {ratio:21}  {rule} = {allowed:+.0f}: {kept(us(ours) <= allowed)}")


def print_stream_costs(costs: Samples, asks: Sequence[Ask], how: str) -> None:
    """Print a line for each kind of stream: the cost of a piece beyond that of the relay."""
    relay = median(costs["relay"])
    direct = median(costs["direct"])
    print(f"\nCPU for each streamed piece, {how}, medians of {len(costs['relay'])}")
    print(f"  writing it takes the backend {direct * 1e6:.1f} µs, passing it on takes the relay {relay * 1e6:.1f} µs")
    for ask in asks:
        bound = bound_of(ask).per_piece
        # in pairs: the machine's speed changes from one round to the next
        extra = 1e6 * median(ours - theirs for ours, theirs in zip(costs[ask.label], costs["relay"], strict=True))
        times = median(ours / theirs for ours, theirs in zip(costs[ask.label], costs["relay"], strict=True))
        took = f"{1e6 * median(costs[ask.label]):6.1f} µs = relay {extra:+6.1f} µs ({times:.2f}x)"
        print(f"  {ask.label:24} {took}   bound +{bound:g} µs: {kept(extra <= bound)}")


def print_growth(grown: Mapping[str, tuple[float, float]], short: int, long: int) -> None:
    print(f"\nCPU for each piece, in streams of {short:,} and of {long:,} pieces")
    for label, (few, many) in grown.items():
        took = f"{few * 1e6:6.1f} and {many * 1e6:6.1f} µs: {many / few:.2f}x"
        print(f"  {label:24} {took}   bound {GROWTH}x: {kept(many <= GROWTH * few)}")


def print_throughput(setup: Setup, taken: Sequence[tuple[Ask, Samples, Samples]], count: int) -> None:
    """Print a line for each kind of request: requests per second and CPU per request, of each server."""
    names = [server.name for server in setup.all]
    print(f"\nAt {count} connections: requests/s (CPU µs of that server for each)")
    print(f"{'':31}" + "".join(f"{name:>14}" for name in names) + "  daemon as share of each relay")
    for ask, rates, costs in taken:
        cells = [f"{median(rates[name]):.0f} ({us(median(costs[name]))})" for name in names]
        shares = [median(rates["daemon"]) / median(rates[relay.name]) for relay in setup.relays]
        said = ", ".join(f"{share:.2f}" for share in shares)
        verdict = f"  {said}  bound ≥ {THROUGHPUT}: {kept(shares[0] >= THROUGHPUT)}"
        print(f"{ask.label:31}" + "".join(f"{cell:>14}" for cell in cells) + verdict)


def print_figure(what: str, figure: float, unit: str, bound: float, *, at_least: bool = False) -> None:
    fits = figure >= bound if at_least else figure <= bound
    print(f"  {what:48} {figure:8.2f} {unit:5} bound {'≥' if at_least else '≤'} {bound:g}: {kept(fits)}")


def us(seconds: float) -> int:
    return round(seconds * 1e6)


def kept(fits: bool) -> str:
    return "kept" if fits else "OVER"
