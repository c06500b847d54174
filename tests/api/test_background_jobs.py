"""Responses in the background whose daemon is stopped, whose model server is busy, and which have expired."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from forge_proxy.api.background import events as event_pages
from forge_proxy.api.background.handler import QUEUE, ResponseHandler
from forge_proxy.api.background.request import BackgroundRequest
from forge_proxy.api.background.service import BackgroundResponses
from forge_proxy.api.response_storage import DAY, ResponseStorage
from forge_proxy.core.errors import Overloaded
from forge_proxy.core.guardrails import GuardPolicy, Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.stored_responses import ResponseNotFound
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.answer import AnswerEvent, Engine
from forge_proxy.engine.config import EnginePolicies
from forge_proxy.jobs import phases
from forge_proxy.jobs.kinds import JobKinds
from forge_proxy.jobs.local_scheduler import LocalScheduler
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobStore
from forge_proxy.jobs.service import Jobs
from forge_proxy.jobs.writers import JobWriters
from forge_proxy.store.database import Database, open_database
from forge_proxy.store.jobs import JobRepository
from forge_proxy.store.responses import ResponseRepository

JsonDict = dict[str, Any]
Answer = Callable[[], AsyncGenerator[AnswerEvent]]
OWNER = "me"
DONE = Report(Outcome.PASSTHROUGH)


def at_once(_: int) -> float:
    return 0.0


class StubEngine:
    """Answers each request by the next function."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.policies = cast("EnginePolicies", type("Policies", (), {"guardrails": GuardPolicy()}))
        self.priorities: list[str] = []

    def answer(self, *_: object, origin: Any, **__: object) -> AsyncGenerator[AnswerEvent]:
        self.priorities.append(origin.priority)
        return self._answers.pop(0)()


async def hello() -> AsyncGenerator[AnswerEvent]:
    yield Chunk((Delta(text="Hello."),), head={"model": "m"})
    yield Chunk((Delta(finish="stop"),), {"prompt_tokens": 1, "completion_tokens": 2})
    yield DONE


async def hello_and_hang() -> AsyncGenerator[AnswerEvent]:
    yield Chunk((Delta(text="Hel"),))
    await asyncio.Event().wait()


async def busy() -> AsyncGenerator[AnswerEvent]:
    raise Overloaded(100, 1)
    yield DONE


def request(*, streams: bool) -> BackgroundRequest:
    body: JsonDict = {"model": "m", "input": "Hi", "background": True, "stream": streams}
    return BackgroundRequest(body, 7, "req_1", "client", None, "", "", streams)


@asynccontextmanager
async def daemon(database: Database, engine: StubEngine, now: float = 1000.0) -> AsyncGenerator[BackgroundResponses]:
    """The responses of a daemon; at the end it stops."""

    @asynccontextmanager
    async def open_jobs() -> AsyncGenerator[JobStore]:
        yield JobRepository(database)

    async def open_responses() -> ResponseRepository:
        return ResponseRepository(database)

    storage = ResponseStorage(open_responses, lambda: now)
    handler = ResponseHandler(cast("Engine", engine), storage)
    reports: list[Exception] = []
    deps = PhaseDeps(JobKinds(handler), lambda: now, lambda _, error: reports.append(error))
    writers = JobWriters(open_jobs, lambda: now)
    jobs = Jobs(writers, LocalScheduler(writers, deps, {QUEUE: lambda: 4}), deps)
    await jobs.resume()
    try:
        yield BackgroundResponses(jobs, storage)
    finally:
        await jobs.close()
    assert reports == []


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[Database]:
    opened = await open_database(f"sqlite+aiosqlite:///{tmp_path}/runs.db")
    yield opened
    await opened.close()


async def events(responses: BackgroundResponses, response_id: str, until: str = "") -> list[JsonDict]:
    """The events of a response, up to the first whose type ends so."""
    found: list[JsonDict] = []
    async with asyncio.timeout(30):
        async for data in await responses.follow(response_id, OWNER):
            lines = [line for line in data.decode().splitlines() if line.startswith("data: ")]
            found += [json.loads(line.removeprefix("data: ")) for line in lines]
            if until and any(event["type"].endswith(until) for event in found):
                break
    return found


async def ended(responses: BackgroundResponses, response_id: str) -> JsonDict:
    async with asyncio.timeout(30):
        while True:
            response = json.loads(await responses.read(response_id, OWNER))
            if response["status"] not in ("queued", "in_progress"):
                return response
            await asyncio.sleep(0.001)


async def test_a_stream_that_clients_have_seen_is_not_replaced_by_another(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_pages, "_PAGE_SECONDS", 0.001)
    async with daemon(database, StubEngine(hello_and_hang)) as responses:
        response_id, _ = await responses.submit(request(streams=True), OWNER)
        seen = await events(responses, response_id, "output_text.delta")

    async with daemon(database, StubEngine()) as responses:
        found = await events(responses, response_id)
        response = await ended(responses, response_id)

    assert found[: len(seen)] == seen
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert found[-1]["type"] == "response.failed"
    assert (response["status"], response["output"]) == ("failed", [])
    assert "send the request again" in response["error"]["message"]


async def test_a_response_without_stored_events_is_generated_again(database: Database) -> None:
    engine = StubEngine(hello_and_hang)
    async with daemon(database, engine) as responses:
        response_id, _ = await responses.submit(request(streams=False), OWNER)
        async with asyncio.timeout(30):
            while not engine.priorities:  # noqa: ASYNC110  the engine has no other sign
                await asyncio.sleep(0.001)

    async with daemon(database, StubEngine(hello)) as responses:
        response = await ended(responses, response_id)

    assert (response["status"], response["output"][0]["content"][0]["text"]) == ("completed", "Hello.")


async def test_a_busy_model_server_is_retried_after_interactive_requests(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases, "compute_retry_delay", at_once)
    engine = StubEngine(busy, busy, hello)
    async with daemon(database, engine) as responses:
        response_id, _ = await responses.submit(request(streams=True), OWNER)
        response = await ended(responses, response_id)
        found = await events(responses, response_id)

    assert response["status"] == "completed"
    assert engine.priorities == ["background"] * 3
    assert [event["sequence_number"] for event in found] == list(range(len(found)))


async def test_a_model_server_that_stays_busy_fails_the_response(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases, "compute_retry_delay", at_once)
    async with daemon(database, StubEngine(*[busy] * 20)) as responses:
        response_id, _ = await responses.submit(request(streams=False), OWNER)
        response = await ended(responses, response_id)

    assert response["status"] == "failed"
    assert response["error"]["code"] == "rate_limit_exceeded"


async def test_expired_responses_are_deleted_with_their_prompts(database: Database) -> None:
    async with daemon(database, StubEngine(hello)) as responses:
        old, _ = await responses.submit(request(streams=True), OWNER)
        await ended(responses, old)
    async with daemon(database, StubEngine(hello), 1000.0 + 31 * DAY) as responses:
        with pytest.raises(ResponseNotFound):
            await responses.read(old, OWNER)
        new, _ = await responses.submit(request(streams=True), OWNER)
        await ended(responses, new)
        listed = await JobRepository(database).list_unfinished()

        assert listed == []
        stored = await JobRepository(database).get(new)
        assert "Hi" not in stored.state
        with pytest.raises(Exception, match=old):
            await JobRepository(database).get(old)
