"""Many concurrent large bodies: they wait for the memory budget of a real daemon, small requests do not."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.bench.bodies import backend, send_bodies
from tests.fakes.processes import Process, daemon

MEGABYTE = 1024 * 1024
MEMORY_MB = 100
ROOM = {"FORGE_PROXY_SERVER__MEMORY_MB": str(MEMORY_MB)}


def resident(process: Process, line: str = "VmRSS:") -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(one.split()[1]) * 1024 for one in lines if one.startswith(line))


def port_of(process: Process) -> int:
    return urlsplit(process.url).port or 0


def over(port: int) -> AbstractContextManager[Process]:
    """A daemon with that much memory. It may be forked: shared pages are resident before and after."""
    return daemon("--backend-url", f"http://127.0.0.1:{port}", "--backend", "openai", env=ROOM)


@pytest.mark.parametrize(("kind", "statuses"), [("text", {200}), ("emoji", {200, 503}), ("lists", {413})])
async def test_large_bodies_at_once_stay_within_the_memory(kind: str, statuses: set[int]) -> None:
    async with backend() as port:
        with over(port) as proxy:
            await send_bodies(port_of(proxy), 1, "text", 200)
            before = resident(proxy)

            answered = await send_bodies(port_of(proxy), 12, kind, 12 * MEGABYTE)

            grown = resident(proxy, "VmHWM:") - before
    assert answered.total() == 12
    assert set(answered) <= statuses
    assert grown < 1.5 * MEMORY_MB * MEGABYTE  # 12 at once would take 430 MB and more, or 4 GB of lists


async def test_small_requests_are_answered_while_large_ones_wait() -> None:
    async with backend() as port:
        with over(port) as proxy:
            large = asyncio.create_task(send_bodies(port_of(proxy), 20, "text", 12 * MEGABYTE))
            small: Counter[int] = Counter()
            while not large.done() and small.total() < 1000:
                small += await send_bodies(port_of(proxy), 1, "text", 200)

            assert await large == {200: 20}
    assert set(small) == {200}
    assert small.total() > 20


async def test_a_body_larger_than_the_memory_is_a_413() -> None:
    async with backend() as port:
        with over(port) as proxy:
            assert await send_bodies(port_of(proxy), 1, "text", 40 * MEGABYTE) == {413: 1}
