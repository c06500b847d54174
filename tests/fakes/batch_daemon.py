"""A daemon with files and batches over a scripted model server, in this process."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
from openai import AsyncOpenAI
from openai.types import Batch

from forge_proxy.api.app import create_app
from forge_proxy.backends.http import RequestBody
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.batches.service import Batches
from forge_proxy.daemon.batches import build_batches
from forge_proxy.daemon.database import shared_database
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.events import Event
from forge_proxy.jobs.kinds import JobKinds
from forge_proxy.jobs.local_scheduler import LocalScheduler
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobStore, NotificationSender
from forge_proxy.jobs.service import Jobs
from forge_proxy.jobs.writers import JobWriters
from forge_proxy.settings import build_settings
from forge_proxy.store.jobs import JobRepository
from forge_proxy.tools.notifications import check_notify_url
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedResponse, whole

ENDPOINT = "/v1/chat/completions"


@dataclass
class BatchModel:
    """A model server that answers each prompt by `answer`, which may wait or raise."""

    answer: Callable[[str], Awaitable[Said]]
    asked: list[str] = field(default_factory=list[str])
    """The prompts, in the order in which they came."""
    running: int = 0
    most: int = 0
    """The most requests at a time."""

    @asynccontextmanager
    async def open(
        self,
        method: str,
        url: str,
        *,
        body: RequestBody | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AsyncGenerator[ScriptedResponse]:
        if method == "GET":
            models = json.dumps({"data": [{"id": "scripted"}]}).encode()
            yield ScriptedResponse(200, models, "application/json", 1_000_000)
            return
        asked = json.loads(whole(body) or b"{}")
        prompt = asked["messages"][-1]["content"] if "messages" in asked else json.dumps(asked)
        self.asked.append(prompt)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            said = await self.answer(prompt)
        finally:
            self.running -= 1
        if said.status != 200:
            yield ScriptedResponse(said.status, json.dumps(said.body).encode(), "application/json", 1_000_000)
        elif asked.get("stream"):
            yield ScriptedResponse(200, said.as_stream(), "text/event-stream", 1_000_000)
        else:
            yield ScriptedResponse(200, said.as_whole(), "application/json", 1_000_000)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that has no event."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.001)


async def echo(prompt: str) -> Said:
    """Answer with the prompt, after other tasks have run."""
    await asyncio.sleep(0)
    return Said(f"echo {prompt}")


@dataclass
class BatchDaemon:
    """One opening of the daemon."""

    client: httpx2.AsyncClient
    jobs: Jobs
    batches: Batches
    clock: TestClock
    reports: list[tuple[str, Exception]]
    events: list[Event]

    def sdk(self, key: str = "one") -> AsyncOpenAI:
        return AsyncOpenAI(api_key=key, base_url="http://127.0.0.1/v1", http_client=self.client, max_retries=0)

    async def submit(self, content: bytes, endpoint: Any = ENDPOINT, window: Any = "24h", **more: Any) -> Batch:
        """Upload a file and create a batch of it."""
        ai = self.sdk()
        file = await ai.files.create(file=("in.jsonl", content), purpose="batch")
        return await ai.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window=window, **more)

    async def wait(self, batch_id: str, *statuses: str) -> Batch:
        """Return the batch once it has one of these statuses, or has ended."""
        async with asyncio.timeout(60), aclosing(self.jobs.follow_events(batch_id)) as events:
            async for _ in events:
                batch = await self.sdk().batches.retrieve(batch_id)
                if batch.status in statuses:
                    return batch
        return await self.sdk().batches.retrieve(batch_id)

    async def until_completed(self, batch_id: str, count: int) -> None:
        """Wait until this many lines have a response."""
        async with asyncio.timeout(60):
            async for _ in self._looks():
                counts = (await self.sdk().batches.retrieve(batch_id)).request_counts
                if counts is not None and counts.completed >= count:
                    return

    async def _looks(self) -> AsyncGenerator[None]:
        while True:
            await asyncio.sleep(0.001)
            yield

    async def lines(self, file_id: str | None) -> list[dict[str, Any]]:
        """Return the lines of an output or error file."""
        if file_id is None:
            return []
        text = (await self.sdk().files.content(file_id)).text
        return [json.loads(line) for line in text.splitlines()]


@dataclass
class TestClock:
    """The time of day, which a test can move on."""

    __test__ = False
    ahead: float = 0.0

    def now(self) -> float:
        return time.time() + self.ahead


@asynccontextmanager
async def batch_daemon(
    folder: Path,
    model: BatchModel,
    *,
    slots: int = 4,
    settings: Mapping[str, Any] | None = None,
    sender: NotificationSender | None = None,
) -> AsyncGenerator[BatchDaemon]:
    """Open the daemon on the store in a folder; at the end its jobs stop where they are."""
    place = {"url": f"sqlite+aiosqlite:///{folder}/runs.db"}
    server = {"max_body_mb": 1}
    config = build_settings({"store": place, "server": server, "backend": {"slots": slots}, **(settings or {})})
    clock, events = TestClock(), list[Event]()
    backend = OpenAICompatible("http://scripted", model)
    admission = Admission(backend, MonotonicClock(), events.append, slots=slots)
    engine = Engine(EngineConfig(backend, MonotonicClock(), events.append, admission=admission))
    reports: list[tuple[str, Exception]] = []
    async with shared_database(config.store.url_in(folder)) as database:
        parts = build_batches(config, database, lambda: slots, clock.now)

        @asynccontextmanager
        async def open_store() -> AsyncGenerator[JobStore]:
            yield JobRepository(await database.get())

        deps = PhaseDeps(JobKinds(*parts.handlers()), clock.now, lambda job, error: reports.append((job, error)))
        writers = JobWriters(open_store, clock.now)
        scheduler = LocalScheduler(writers, deps, {"lines": lambda: slots})
        jobs = Jobs(writers, scheduler, deps, sender=sender)
        batches = parts.service(jobs, partial(check_notify_url, config=config.tools.callbacks))
        app = create_app(engine, backend, config.server, files=parts.files, batches=batches, lines=parts.executor)
        transport = httpx2.ASGITransport(app)
        try:
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                await jobs.resume()
                yield BatchDaemon(client, jobs, batches, clock, reports, events)
        finally:
            await jobs.close()
            await parts.files.close()


def to_line(custom_id: str, prompt: str | Sequence[Mapping[str, Any]] = "", **fields: Any) -> bytes:
    """Return a line of an input file."""
    messages = [{"role": "user", "content": prompt or custom_id}] if isinstance(prompt, str) else [*prompt]
    body = {"model": "scripted", "messages": messages}
    line = {"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": body, **fields}
    return json.dumps(line).encode() + b"\n"
