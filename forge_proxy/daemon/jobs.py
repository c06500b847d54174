"""Builds the services of jobs: their store in the daemon's database, and the tool executors of runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module

from structlog.typing import FilteringBoundLogger
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_chain, wait_fixed

from forge_proxy.api.background.handler import QUEUE, ResponseHandler
from forge_proxy.api.background.service import BackgroundResponses
from forge_proxy.api.response_storage import ResponseStorage
from forge_proxy.backends.capability_cache import state_folder
from forge_proxy.backends.http import AioHttp
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jobs.records import StoredJob
from forge_proxy.core.store_errors import StoreInUse, StoreUnavailable
from forge_proxy.daemon.database import SharedDatabase
from forge_proxy.daemon.scheduling import FEED_SECONDS, build_scheduler
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.events import RunNotResumable, RunStatusChanged
from forge_proxy.engine.memory import MemoryBudget
from forge_proxy.engine.ports import Observer
from forge_proxy.jobs.kinds import JobKinds
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobStore
from forge_proxy.jobs.service import Jobs
from forge_proxy.jobs.writers import JobWriters
from forge_proxy.settings import Settings
from forge_proxy.store.config import sqlite_file
from forge_proxy.tools.addresses import CheckedResolver
from forge_proxy.tools.executors import open_registry
from forge_proxy.tools.ports import SystemClock
from forge_proxy.workflows.runs.execution import ExecutionDeps, RunHandler
from forge_proxy.workflows.runs.serialization import RunError, read_outcome
from forge_proxy.workflows.runs.service import Runs

_LOCKED_RETRY_SECONDS = 2.0
"""Seconds between attempts to open a store that another daemon has locked; that daemon may be shutting down."""
_RETRY_WAIT = wait_chain(*map(wait_fixed, (2.0, 5.0, 15.0, 60.0)))
"""Seconds between attempts to open an unavailable store, whose database may start later. The last value repeats."""
_MAX_RESPONSES = 64
"""Responses in the background that may wait for a slot of the model server; further ones wait in the database."""
_MAX_SILENCE_SECONDS = 3600.0
"""Seconds. Upper limit for all tools; each tool has its own timeout below it."""


@dataclass(frozen=True, slots=True)
class JobServices:
    """The jobs of a daemon, and the operations of each kind."""

    jobs: Jobs
    runs: Runs
    background: BackgroundResponses


@asynccontextmanager
async def build_jobs(
    settings: Settings,
    engine: Engine,
    observe: Observer,
    database: SharedDatabase,
    responses: ResponseStorage,
    memory: MemoryBudget,
) -> AsyncGenerator[JobServices]:
    """Build the job services of a daemon. At the end, jobs stop at their current step."""
    is_shared = settings.jobs.scheduler == "temporal"

    @asynccontextmanager
    async def open_store() -> AsyncGenerator[JobStore]:
        opened = await database.get()
        yield import_module("forge_proxy.store.jobs").JobRepository(opened, has_outbox=is_shared)

    def report_stranded(run_id: str, error: Exception) -> None:
        if isinstance(error, ForgeError):
            observe(RunNotResumable(run_id, error.summary))
        else:
            observe(RunNotResumable(run_id, "internal error in forge-proxy", error))

    async with AsyncExitStack() as closing:
        http = AioHttp(
            connect_seconds=settings.backend.connect_seconds,
            silence_seconds=_MAX_SILENCE_SECONDS,
            resolver=CheckedResolver(settings.tools.callbacks.allow),
        )
        closing.push_async_callback(http.close)
        tools = await closing.enter_async_context(open_registry(settings.tools, http, SystemClock(), observe))
        deps = ExecutionDeps(engine, tools, report_stranded)
        phases = PhaseDeps(
            JobKinds(RunHandler(deps), ResponseHandler(engine, responses, memory)), time.time, report_stranded
        )
        writers = JobWriters(open_store, time.time, is_shared=is_shared)
        queues = {"runs": lambda: settings.runs.max_running, QUEUE: lambda: _MAX_RESPONSES}
        scheduler = build_scheduler(settings.jobs, writers, phases, queues, database)

        def report_status(job: StoredJob) -> None:
            if job.kind == RunHandler.kind:
                observe(_status_event(job))

        poll_seconds = FEED_SECONDS if is_shared else None
        jobs = Jobs(writers, scheduler, phases, report_status, poll_seconds=poll_seconds)
        closing.push_async_callback(jobs.close)
        yield JobServices(jobs, Runs(jobs, deps, time.time), BackgroundResponses(jobs, responses))


async def resume(jobs: Jobs, settings: Settings, log: FilteringBoundLogger) -> None:
    """Continue the unfinished jobs of an earlier daemon. If the store is unavailable, keep trying to open it.

    Does nothing if the SQLite file does not exist; the first request that needs the store creates it.
    """
    file = sqlite_file(store_url(settings))
    if file is not None and not await asyncio.to_thread(file.exists):
        return
    reported = ""
    async for attempt in AsyncRetrying(retry=retry_if_exception_type(StoreUnavailable), wait=_store_wait):
        with attempt:
            try:
                await jobs.resume()
            except StoreUnavailable as error:
                if error.summary != reported:
                    reported = error.summary
                    note = "retried until the store is available"
                    log.warning("run store unavailable", error=reported, note=note, former_event="no runs")  # until 0.3
                raise


def _store_wait(state: RetryCallState) -> float:
    is_locked = state.outcome is not None and isinstance(state.outcome.exception(), StoreInUse)
    return _LOCKED_RETRY_SECONDS if is_locked else _RETRY_WAIT(state)


def store_url(settings: Settings) -> str:
    """Return the URL of the daemon's database."""
    return settings.store.url_in(state_folder())


def _status_event(job: StoredJob) -> RunStatusChanged:
    outcome = read_outcome(job.outcome) if job.outcome is not None else None
    return RunStatusChanged(job.id, job.status, outcome.type if isinstance(outcome, RunError) else None)
