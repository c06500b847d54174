"""`python -m tests.bench.request_store`: pages of the dashboard and retention over a million stored requests on SQLite.

Prints the median and the longest of 20 readings of each page, the longest transaction of the retention, and how long a
write had to wait beside it. Two minutes.
"""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from forge_proxy.core.guardrails.turn import Outcome
from forge_proxy.core.requests.records import AttemptRecord, CallRecord, RequestOrigin, RequestRecord, TokenCounts
from forge_proxy.core.requests.stored import EndedRequest, RequestFilter, RequestRetention
from forge_proxy.store.database import Database, open_database
from forge_proxy.store.ledger import LedgerRepository
from forge_proxy.store.requests import RequestRepository

_DAY = 86400
_BATCH = 500
_READINGS = 20
_MODELS = ("qwen3:8b", "gpt-oss:20b", "tiny-tools")
_TOOLS = ("read_file", "write_file", "search", "shell")
_FAULTS = (None, None, None, None, None, "bad_arguments", "text", "unknown_tool")
_RARE = "grammar"
"""A fault of one request in a hundred thousand: the page of a rare fault must not read all requests."""


def make_request(number: int, at: float, rng: random.Random) -> EndedRequest:
    """Return a made-up request."""
    fault = _RARE if number % 100_000 == 5 else rng.choice(_FAULTS)
    tool, model = rng.choice(_TOOLS), rng.choice(_MODELS)
    tokens = TokenCounts(rng.randrange(200, 20_000), 100, rng.randrange(5, 800))
    faulty = (AttemptRecord(1, fault, tool, "limit: not an integer", 1.5, tokens),) if fault else ()
    record = RequestRecord(
        f"req_{number:032x}",
        RequestOrigin("chat_completions", "laptop", "opencode/1.2"),
        model,
        model,
        True,
        8,
        "retried" if fault else "clean",
        rng.uniform(0.1, 60),
        0.0,
        rng.uniform(0.05, 10),
        2.0,
        (*faulty, AttemptRecord(len(faulty) + 1, None, "", "", 2.0, tokens)),
        (CallRecord(tool, Outcome.RETRIED if fault else Outcome.CLEAN),),
    )
    return EndedRequest(at, record, model, "Q4_K_M")


async def fill(requests: RequestRepository, count: int, now: float) -> None:
    """Store requests of the last 30 days, evenly spread."""
    rng = random.Random(7)
    for first in range(0, count, _BATCH):
        ended = [
            make_request(number, now - 30 * _DAY * (1 - number / count), rng)
            for number in range(first, min(count, first + _BATCH))
        ]
        await requests.add(ended)


async def read_pages(requests: RequestRepository, ledger: LedgerRepository, count: int, now: float) -> None:
    """Print how long each page takes."""
    pages: dict[str, Callable[[], Awaitable[object]]] = {
        "requests, the latest": lambda: requests.list(RequestFilter(), before=None, limit=51),
        "requests, in the middle": lambda: requests.list(RequestFilter(), before=count // 2, limit=51),
        "requests, by result": lambda: requests.list(RequestFilter(result="retried"), before=None, limit=51),
        "requests, none with this result": lambda: requests.list(RequestFilter(result="failed"), before=None, limit=51),
        "requests, by a rare fault": lambda: requests.list(RequestFilter(fault=_RARE), before=None, limit=51),
        "requests, by model and fault": lambda: requests.list(
            RequestFilter(model=_MODELS[0], fault="text"), before=None, limit=51
        ),
        "one request by its id": lambda: requests.get(f"req_{count // 3:032x}"),
        "ledger of 30 days, rows": lambda: ledger.list_calls(now - 30 * _DAY, now, None),
        "ledger of 30 days, hours": lambda: ledger.list_hours(now - 30 * _DAY, now, None),
        "ledger of 30 days, durations": lambda: ledger.list_durations(now - 30 * _DAY, now, None),
    }
    for name, read in pages.items():
        times: list[float] = []
        for _ in range(_READINGS):
            began = time.perf_counter()
            await read()
            times.append(time.perf_counter() - began)
        print(f"| {name} | {1e3 * median(times):.1f} ms | {1e3 * max(times):.1f} ms |")


async def prune(database: Database, requests: RequestRepository, now: float, seconds: float) -> None:
    """Delete for some seconds, while a writer adds a request every 20 ms, and print the longest times of both."""
    steps: list[float] = []
    waits: list[float] = []
    ends_at = time.perf_counter() + seconds

    async def delete() -> None:
        is_more = True
        while is_more and time.perf_counter() < ends_at:
            began = time.perf_counter()
            is_more = await requests.prune(RequestRetention(1, 10**9, 365), now)
            steps.append(time.perf_counter() - began)
            await asyncio.sleep(0.05)

    async def write() -> None:
        rng = random.Random(1)
        while time.perf_counter() < ends_at:
            began = time.perf_counter()
            await requests.add([make_request(1, now, rng)])
            waits.append(time.perf_counter() - began)
            await asyncio.sleep(0.02)

    await asyncio.gather(delete(), write())
    print(f"| retention, one transaction of {len(steps)} | {1e3 * median(steps):.1f} ms | {1e3 * max(steps):.1f} ms |")
    print(f"| a write beside it, of {len(waits)} | {1e3 * median(waits):.1f} ms | {1e3 * max(waits):.1f} ms |")


async def measure(count: int) -> None:
    """Fill a database and print the table."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "runs.db"
        database = await open_database(f"sqlite+aiosqlite:///{file}")
        requests, ledger, now = RequestRepository(database), LedgerRepository(database), time.time()
        began = time.perf_counter()
        await fill(requests, count, now)
        each = (time.perf_counter() - began) / count
        print(f"{count:,} requests, {1e6 * each:.0f} µs each, {file.stat().st_size / 2**20:.0f} MB\n")
        print("| page | median | longest of 20 |\n|---|---|---|")
        await read_pages(requests, ledger, count, now)
        await prune(database, requests, now, 20)
        await database.close()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    asyncio.run(measure(parser.parse_args().requests))


if __name__ == "__main__":
    main()
