"""Texts of requests on their way into the store: bounded in number and size, and never in the way of a request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.requests.content import AttemptContent, RequestContent
from forge_proxy.core.requests.stored import EndedRequest, RequestRetention
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.core.stream import Reply
from forge_proxy.engine.events import RequestFailed
from forge_proxy.telemetry import bounded_writer, content_encoder, request_writer
from forge_proxy.telemetry.content_encoder import ContentEncoder
from forge_proxy.telemetry.request_writer import RequestWriter
from forge_proxy.wire.request_content import MAX_CONTENT, decode_content
from tests.fakes.records import record_with
from tests.telemetry.test_request_writer import until

KEPT = RequestRetention(30, 1000, 365)


class ContentStore:
    """A store in memory, which fails as long as `error` is set."""

    def __init__(self) -> None:
        self.texts: dict[str, str | None] = {}
        self.error: Exception | None = None
        self.prunes = 0

    async def add(self, ended: Sequence[EndedRequest]) -> None:
        if self.error is not None:
            raise self.error
        for one in ended:
            content = decode_content(one.content) if one.content is not None else None
            self.texts[one.record.request_id] = content.received[0].text if content else None

    async def prune(self, retention: RequestRetention, now: float) -> bool:
        self.prunes += 1
        return False


class Pipeline:
    """An encoder and a writer that run."""

    def __init__(self) -> None:
        self.store = ContentStore()
        self.lines = LogCapture()
        log: FilteringBoundLogger = structlog.wrap_logger(None, [self.lines], structlog.stdlib.BoundLogger)

        async def open_store() -> ContentStore:
            return self.store

        self.counts: Counter[str] = Counter()
        self.encoder = ContentEncoder(log)
        self.encoder.set_counter(lambda result: self.counts.update([result]))
        self.writer = RequestWriter(open_store, lambda _: ("m", ""), KEPT, log, self.encoder)
        self.encoding = asyncio.create_task(self.encoder.run())
        self.writing = asyncio.create_task(self.writer.run())

    def end_request(self, name: str, text: str = "said", **request: Any) -> None:
        record = record_with(request_id=name)
        reply = Reply(text=text)
        body = {"messages": []}
        self.encoder(AttemptContent(name, 1, None, (reply,), "delivered"))  # pyright: ignore[reportArgumentType]
        self.encoder(RequestContent(record, replace(ChatRequest(body), **request), (), (reply,)))
        self.writer(RequestFailed(record))

    async def close(self) -> None:
        await self.writer.close(self.writing)
        self.encoding.cancel()
        await asyncio.wait([self.encoding])


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_writer, "_INTERVAL", 0.0)
    monkeypatch.setattr(bounded_writer, "_MAX_PAUSE", 0.01)
    monkeypatch.setattr(bounded_writer, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(bounded_writer, "_CLOSE_SECONDS", 2.0)


@pytest.fixture
async def pipeline() -> AsyncGenerator[Pipeline]:
    made = Pipeline()
    yield made
    await made.close()


async def test_texts_are_stored_with_their_records(pipeline: Pipeline) -> None:
    names = [f"r{number}" for number in range(100)]
    for name in names:
        pipeline.end_request(name, f"text of {name}")

    await until(lambda: len(pipeline.store.texts) == 100)

    assert pipeline.store.texts == {name: f"text of {name}" for name in names}
    assert pipeline.counts == {"stored": 100}


async def test_two_requests_with_one_id_have_their_own_texts(pipeline: Pipeline) -> None:
    records = [record_with(request_id="same"), record_with(request_id="same")]
    for record, text in zip(records, ("first", "second"), strict=True):
        pipeline.encoder(RequestContent(record, ChatRequest({}), (), (Reply(text=text),)))

    taken = [pipeline.encoder.take(record) for record in reversed(records)]

    await pipeline.encoder.wait_until_encoded([one for one in taken if one])
    texts = [decode_content(one.encoded.data).received[0].text for one in taken if one and one.encoded]
    assert texts == ["second", "first"]
    assert pipeline.encoder.take(records[0]) is None


async def test_the_last_texts_are_stored_when_the_daemon_ends() -> None:
    pipeline = Pipeline()
    pipeline.end_request("last")

    await pipeline.close()

    assert pipeline.store.texts == {"last": "said"}


async def test_a_text_that_is_too_large_is_counted_and_its_record_is_stored(pipeline: Pipeline) -> None:
    for name in ("a", "b"):
        pipeline.end_request(name, body={"messages": [{"content": ["x"] * (MAX_CONTENT // 8)}]})
    pipeline.end_request("cut", "y" * MAX_CONTENT)

    await until(lambda: len(pipeline.store.texts) == 3)

    assert pipeline.store.texts["a"] is pipeline.store.texts["b"] is None
    assert "characters were not stored" in (pipeline.store.texts["cut"] or "")
    assert pipeline.counts == {"too_large": 2, "cut": 1}
    (line,) = [line for line in pipeline.lines.entries if line["event"] == "text of a request not stored"]
    assert line["request_id"] == "a"


async def test_texts_that_wait_for_the_thread_are_bounded(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_encoder, "_MAX_UNENCODED", 3)
    for name in "abcde":
        pipeline.end_request(name)

    await until(lambda: len(pipeline.store.texts) == 5)

    assert [name for name, text in pipeline.store.texts.items() if text is None] == ["d", "e"]
    assert pipeline.counts == {"dropped": 2, "stored": 3}


async def test_large_requests_that_wait_are_fewer(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_encoder, "_MAX_LARGE", 1)
    for name in "abc":
        pipeline.end_request(name, is_large=name != "c")

    await until(lambda: len(pipeline.store.texts) == 3)

    assert [name for name, text in pipeline.store.texts.items() if text is None] == ["b"]


async def test_while_the_store_fails_the_oldest_texts_are_dropped_and_no_record(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_encoder, "_MAX_ENCODED", 400)
    pipeline.store.error = StoreUnavailable("locked")
    for name in "abcdefgh":
        pipeline.end_request(name)
    await until(lambda: pipeline.counts["dropped"] > 0)
    await asyncio.sleep(0.05)

    pipeline.store.error = None
    await until(lambda: len(pipeline.store.texts) == 8)

    assert pipeline.store.texts["a"] is None
    assert pipeline.store.texts["h"] == "said"
    dropped = sum(text is None for text in pipeline.store.texts.values())
    assert pipeline.counts == {"dropped": dropped, "stored": 8 - dropped}
    events = [line["event"] for line in pipeline.lines.entries]
    assert events == ["requests not stored", "requests stored again"]


async def test_a_fault_of_the_encoder_costs_one_text(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: RequestContent) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(content_encoder, "encode_content", fail)
    pipeline.end_request("bad")
    await until(lambda: "bad" in pipeline.store.texts)
    monkeypatch.undo()
    pipeline.end_request("good")
    await until(lambda: "good" in pipeline.store.texts)

    assert pipeline.store.texts == {"bad": None, "good": "said"}


async def test_old_texts_are_deleted_after_every_few_megabytes(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_writer, "_PRUNE_BYTES", 100)
    for number in range(3):
        pipeline.end_request(f"r{number}")
        await until(lambda number=number: pipeline.store.prunes == number + 1)
