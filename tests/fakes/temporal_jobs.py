"""The jobs of a daemon that shares its PostgreSQL database with others through Temporal, inside the test's process."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial

from forge_proxy.jobs.kinds import JobKinds
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobStore
from forge_proxy.jobs.service import Jobs
from forge_proxy.jobs.temporal_config import TemporalConfig
from forge_proxy.jobs.writers import JobWriters
from forge_proxy.store.database import open_database
from forge_proxy.store.jobs import JobRepository
from forge_proxy.store.outbox import OutboxRepository
from forge_proxy.temporal.ports import TemporalOptions
from forge_proxy.temporal.scheduler import TemporalScheduler
from tests.fakes.job_kind import JobWorld, ScriptedKind

PREFIX = "test-"


@asynccontextmanager
async def temporal_world(
    database_url: str,
    address: str,
    kind: ScriptedKind,
    queues: Mapping[str, int] | None = None,
    prefix: str = PREFIX,
) -> AsyncGenerator[JobWorld]:
    """Yield the jobs of a daemon. Phases of the queue `tests` run here unless `queues` lists others."""
    database = await open_database(database_url, is_shared=True)
    store, outbox = JobRepository(database, has_outbox=True), OutboxRepository(database)
    reports: list[tuple[str, Exception]] = []

    @asynccontextmanager
    async def open_store() -> AsyncGenerator[JobStore]:
        yield store

    async def open_outbox() -> OutboxRepository:
        return outbox

    deps = PhaseDeps(JobKinds(kind), time.time, lambda job_id, error: reports.append((job_id, error)))
    writers = JobWriters(open_store, time.time, is_shared=True)
    served = {"tests": 4} if queues is None else queues
    place = TemporalOptions(
        TemporalConfig(address=address, task_queue_prefix=prefix),
        {name: partial(int, limit) for name, limit in served.items()},
        lambda reason: None,
        lambda: None,
    )
    jobs = Jobs(writers, TemporalScheduler(writers, deps, open_outbox, place), deps, poll_seconds=0.2)
    await jobs.resume()
    try:
        yield JobWorld(jobs, store, reports)
    finally:
        await jobs.close()
        await database.close()
