"""Builds the services of jobs: their store in the daemon's database, and the tool executors of runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module

import structlog
from structlog.typing import FilteringBoundLogger
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_chain, wait_fixed

from forge_proxy.api.background.handler import QUEUE, ResponseHandler
from forge_proxy.api.background.service import BackgroundResponses
from forge_proxy.api.response_storage import ResponseStorage
from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.backends.capability_cache import state_folder
from forge_proxy.batches.service import Batches
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jobs.outcomes import read_error_type
from forge_proxy.core.jobs.records import StoredJob
from forge_proxy.core.store_errors import StoreInUse, StoreUnavailable
from forge_proxy.daemon.batches import BatchParts, build_batches
from forge_proxy.daemon.database import SharedDatabase
from forge_proxy.daemon.scheduling import FEED_SECONDS, build_scheduler
from forge_proxy.daemon.task_batches import TaskBatches
from forge_proxy.daemon.tasks import build_tasks
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.events import JobStatusChanged, RunNotResumable, RunStatusChanged
from forge_proxy.engine.memory import MemoryBudget
from forge_proxy.engine.ports import Observer
from forge_proxy.hardware.files import count_cores
from forge_proxy.jobs.kinds import JobKinds
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobStore
from forge_proxy.jobs.service import Jobs
from forge_proxy.jobs.writers import JobWriters
from forge_proxy.settings import Settings
from forge_proxy.store.config import find_sqlite_file
from forge_proxy.tasks.service import TaskService
from forge_proxy.telemetry.task_call_writer import TaskCallStore, TaskCallWriter
from forge_proxy.tools.addresses import CheckedResolver
from forge_proxy.tools.executors import open_registry
from forge_proxy.tools.notifications import CallbackNotifications, check_notify_url
from forge_proxy.tools.ports import SystemClock
from forge_proxy.workflows.runs.execution import ExecutionDeps, RunHandler
from forge_proxy.workflows.runs.service import Runs

_LOCKED_RETRY_SECONDS = 2.0
"""Seconds between attempts to open a store that another daemon has locked; that daemon may be shutting down."""
_RETRY_WAIT = wait_chain(*map(wait_fixed, (2.0, 5.0, 15.0, 60.0)))
"""Seconds between attempts to open an unavailable store, whose database may start later. The last value repeats."""
_MAX_RESPONSES = 64
"""Responses in the background that may wait for a slot of the model server; further ones wait in the database."""
_MAX_BATCHES = 2
"""Batches whose files are checked or written at a time."""
_UNBOUNDED_LINES = 16
"""Lines of batches at a time for a model server that has no number of slots, such as vLLM."""
_MIN_TASKS = 4
"""Phases of tasks at a time: most of them need no model."""
_MAX_SILENCE_SECONDS = 3600.0
"""Seconds. Upper limit for all tools; each tool has its own timeout below it."""


@dataclass(frozen=True, slots=True)
class JobServices:
    """The jobs of a daemon, and the operations of each kind."""

    jobs: Jobs
    runs: Runs
    background: BackgroundResponses
    batches: Batches
    batch_parts: BatchParts
    tasks: TaskService


@dataclass(frozen=True, slots=True)
class _JobStores:
    """The stores of jobs in the daemon's database, which is opened when the first of them is needed."""

    database: SharedDatabase
    has_outbox: bool
    """Whether changes are reported to a scheduler that several daemons share."""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[JobStore]:
        """Open the store that jobs are written to."""
        opened = await self.database.get()
        yield import_module("forge_proxy.store.jobs").JobRepository(opened, has_outbox=self.has_outbox)

    async def get(self) -> JobStore:
        """Return a store that jobs are only read from."""
        return import_module("forge_proxy.store.jobs").JobRepository(await self.database.get())


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
    stores = _JobStores(database, has_outbox=settings.jobs.scheduler == "temporal")
    report_stranded = partial(_report_stranded, observe)
    async with AsyncExitStack() as closing:
        http = AioHttp(
            connect_seconds=settings.backend.connect_seconds,
            silence_seconds=_MAX_SILENCE_SECONDS,
            resolver=CheckedResolver(settings.tools.callbacks.allow),
        )
        closing.push_async_callback(http.close)
        tools = await closing.enter_async_context(open_registry(settings.tools, http, SystemClock(), observe))
        callbacks = settings.tools.callbacks
        check_url = partial(check_notify_url, config=callbacks)
        deps = ExecutionDeps(engine, tools, report_stranded, check_url, observe)
        limits = queue_limits(settings, engine)
        batches = build_batches(settings, database, limits["lines"])
        call_log = await closing.enter_async_context(_open_call_log(database))
        task_batches = TaskBatches(batches.files, stores.get, time.time, settings.tasks.batch_hours)
        tasks = build_tasks(settings, engine, stores.get, state_folder(), report_stranded, call_log, task_batches)
        kinds = JobKinds(
            RunHandler(deps), ResponseHandler(engine, responses, memory), *batches.handlers(), *tasks.handlers()
        )
        phases = PhaseDeps(kinds, time.time, report_stranded)
        writers = JobWriters(stores.open, time.time, is_shared=stores.has_outbox)
        scheduler = build_scheduler(settings.jobs, writers, phases, limits, database)
        closing.push_async_callback(batches.files.close)
        jobs = Jobs(
            writers,
            scheduler,
            phases,
            lambda job: observe(_status_event(job)),
            retention_days=settings.jobs.retention_days,
            poll_seconds=FEED_SECONDS if stores.has_outbox else None,
            sender=CallbackNotifications(callbacks, http, SystemClock(), observe),
        )
        closing.push_async_callback(tasks.cleaning.close)
        closing.push_async_callback(jobs.close)
        runs, background = Runs(jobs, deps, time.time), BackgroundResponses(jobs, responses)
        task_service = tasks.service(jobs, check_url)
        waker = task_service.turn_waker(tasks.cleaning)
        writers.subscribe(waker.on_change, waker.on_open)
        yield JobServices(jobs, runs, background, batches.service(jobs, check_url), batches, task_service)


def _report_stranded(observe: Observer, run_id: str, error: Exception) -> None:
    """Report a job that this daemon cannot resume."""
    if isinstance(error, ForgeError):
        observe(RunNotResumable(run_id, error.summary))
    else:
        observe(RunNotResumable(run_id, "internal error in forge-proxy", error))


@asynccontextmanager
async def _open_call_log(database: SharedDatabase) -> AsyncGenerator[TaskCallWriter]:
    """Store the records of calls of tasks while the block runs, and write the last ones at its end."""

    async def open_calls() -> TaskCallStore:
        opened = await database.get()
        return import_module("forge_proxy.store.task_calls").TaskCallRepository(opened)

    writer = TaskCallWriter(open_calls, structlog.get_logger())
    running = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        await writer.close(running)


def queue_limits(settings: Settings, engine: Engine) -> dict[str, Callable[[], int]]:
    """Return how many phases of each queue may run at a time."""
    queues = settings.jobs.queues
    tasks, lines = queues.tasks, queues.lines
    cores = max(1, count_cores() // 2)
    return {
        "runs": lambda: settings.runs.max_running,
        QUEUE: lambda: _MAX_RESPONSES,
        "batches": lambda: _MAX_BATCHES,
        "tasks": lambda: max(engine.queue.slots or 0, _MIN_TASKS) if tasks == "auto" else tasks,
        "lines": lambda: (engine.queue.slots or _UNBOUNDED_LINES) if lines == "auto" else lines,
        "checks": lambda: cores if queues.checks == "auto" else queues.checks,
    }


async def resume(jobs: Jobs, settings: Settings, log: FilteringBoundLogger) -> None:
    """Continue the unfinished jobs of an earlier daemon. If the store is unavailable, keep trying to open it.

    Does nothing if the SQLite file does not exist; the first request that needs the store creates it.
    """
    file = find_sqlite_file(store_url(settings))
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


def _status_event(job: StoredJob) -> RunStatusChanged | JobStatusChanged:
    error = read_error_type(job.outcome)
    if job.kind == RunHandler.kind:
        return RunStatusChanged(job.id, job.status, error)
    return JobStatusChanged(job.id, job.kind, job.status, error)
