"""Requests are stored after their responses; a store that cannot be used costs neither a request nor memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from forge_proxy.core.requests.stored import EndedRequest, RequestRetention
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.engine.events import RequestFailed, SlotsDetected
from forge_proxy.telemetry import bounded_writer, request_writer
from forge_proxy.telemetry.request_writer import RequestWriter
from tests.fakes.records import record_with

KEPT = RequestRetention(30, 1000, 365)


class Store:
    """A store in memory, which fails as long as `error` is set."""

    def __init__(self) -> None:
        self.stored: list[str] = []
        self.error: Exception | None = None
        self.batches: list[int] = []
        self.prunes = 0
        self.block: asyncio.Event | None = None

    async def add(self, ended: Sequence[EndedRequest]) -> None:
        if self.block is not None:
            await self.block.wait()
        if self.error is not None:
            raise self.error
        self.stored += [one.record.request_id for one in ended]
        self.batches.append(len(ended))

    async def prune(self, retention: RequestRetention, now: float) -> bool:
        assert retention == KEPT
        assert now > 1e9
        self.prunes += 1
        return self.prunes < 3


class Written:
    """A writer that runs."""

    def __init__(self, store: Store) -> None:
        self.lines = LogCapture()
        log: FilteringBoundLogger = structlog.wrap_logger(None, [self.lines], structlog.stdlib.BoundLogger)

        async def open_store() -> Store:
            return store

        self.writer = RequestWriter(open_store, lambda _: ("m", "Q4_0"), KEPT, log)
        self.task = asyncio.create_task(self.writer.run())

    def end_requests(self, *names: str) -> None:
        for name in names:
            self.writer(RequestFailed(record_with(request_id=name)))

    def logged(self) -> list[tuple[str, Any]]:
        return [(line["event"], line.get("dropped", line.get("count"))) for line in self.lines.entries]

    async def close(self) -> None:
        await self.writer.close(self.task)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_writer, "_PRUNE_PAUSE", 0.0)
    monkeypatch.setattr(bounded_writer, "_INTERVAL", 0.0)
    monkeypatch.setattr(bounded_writer, "_MAX_PAUSE", 0.01)
    monkeypatch.setattr(bounded_writer, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(bounded_writer, "_CLOSE_SECONDS", 0.2)


async def until(happened: Any) -> None:
    async with asyncio.timeout(10):
        while not happened():  # noqa: ASYNC110  # what is waited for is the writer's own
            await asyncio.sleep(0.005)


async def test_requests_are_stored_in_order_and_in_batches() -> None:
    store = Store()
    written = Written(store)
    names = [f"r{number}" for number in range(1203)]
    written.writer(SlotsDetected(1))
    written.end_requests(*names)

    await until(lambda: len(store.stored) == 1203)
    await written.close()

    assert store.stored == names
    assert store.batches == [500, 500, 203]


async def test_the_last_requests_are_written_when_the_daemon_ends() -> None:
    store = Store()
    written = Written(store)
    written.end_requests("last")

    await written.close()

    assert store.stored == ["last"]
    assert written.logged() == []


async def test_an_unavailable_store_is_reported_once_and_requests_are_stored_later() -> None:
    store = Store()
    store.error = StoreUnavailable("disk full")
    written = Written(store)
    written.end_requests("a")
    await until(lambda: written.logged())
    written.end_requests("b")
    await asyncio.sleep(0.05)

    store.error = None
    await until(lambda: store.stored == ["a", "b"])
    await until(lambda: len(written.logged()) == 2)

    assert written.logged() == [("requests not stored", None), ("requests stored again", 0)]
    await written.close()


async def test_requests_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_writer, "_MAX_WAITING", 3)
    store = Store()
    store.error = StoreUnavailable("locked")
    written = Written(store)
    written.end_requests(*"abcdef")
    await until(lambda: written.logged())

    store.error = None
    await until(lambda: store.stored == ["d", "e", "f"])

    assert written.writer.dropped == 3
    await until(lambda: ("requests stored again", 3) in written.logged())
    await written.close()


async def test_requests_that_are_dropped_while_a_batch_is_written_are_not_written_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_writer, "_MAX_WAITING", 3)
    store = Store()
    store.block = asyncio.Event()
    written = Written(store)
    written.end_requests(*"abc")
    await asyncio.sleep(0.02)
    written.end_requests(*"de")  # a and b are dropped from the queue while they are being written
    store.block.set()

    await until(lambda: store.stored == ["a", "b", "c", "d", "e"])
    await written.close()


async def test_a_request_that_the_store_cannot_take_does_not_block_later_ones() -> None:
    store = Store()
    store.error = ValueError("a bug")
    written = Written(store)
    written.end_requests("bad")
    await until(lambda: written.writer.dropped == 1)

    store.error = None
    written.end_requests("good")
    await until(lambda: store.stored == ["good"])

    assert written.logged() == [("requests not stored", 1)]
    await written.close()


async def test_a_store_that_hangs_delays_the_end_of_the_daemon_only_shortly() -> None:
    store = Store()
    store.block = asyncio.Event()
    written = Written(store)
    written.end_requests("lost")
    await asyncio.sleep(0.02)

    async with asyncio.timeout(5):
        await written.close()

    assert written.logged() == [("requests not stored", 1)]


async def test_what_is_no_longer_kept_is_deleted_until_nothing_is_left() -> None:
    store = Store()
    written = Written(store)
    written.end_requests("a")
    await until(lambda: store.prunes == 3)
    written.end_requests("b")
    await until(lambda: store.stored == ["a", "b"])
    await written.close()

    assert store.prunes == 3  # once an hour


async def test_nothing_is_opened_before_the_first_request() -> None:
    async def open_store() -> Store:
        raise AssertionError

    log: FilteringBoundLogger = structlog.wrap_logger(None, [LogCapture()], structlog.stdlib.BoundLogger)
    writer = RequestWriter(open_store, lambda _: ("m", ""), KEPT, log)
    running = asyncio.create_task(writer.run())
    await asyncio.sleep(0.02)

    with suppress(asyncio.CancelledError):
        await writer.close(running)

    assert running.exception() is None
