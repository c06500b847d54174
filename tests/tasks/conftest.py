"""A world in which tasks run: a real repository, a real store, a scripted model, and checks of the test."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.typing import FilteringBoundLogger

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.http import RequestBody
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.batches.files import Files
from forge_proxy.core.backend_errors import BackendUnreachable
from forge_proxy.core.jobs.records import JobEvent, StoredJob
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.core.tasks.call_record import TaskCallRecord
from forge_proxy.core.tasks.findings import Baseline, Finding, ValidationResult
from forge_proxy.core.tasks.models import ForgeTaskInput
from forge_proxy.core.tasks.prompt.sections import PromptOrder
from forge_proxy.core.tasks.workspace import MergeMethod
from forge_proxy.daemon.batches import build_batches
from forge_proxy.daemon.database import SharedDatabase
from forge_proxy.daemon.task_batches import TaskBatches
from forge_proxy.daemon.tasks import TaskParts
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.memory import MemoryBudget
from forge_proxy.jobs.background_tasks import BackgroundTasks
from forge_proxy.jobs.kinds import JobKinds
from forge_proxy.jobs.local_scheduler import LocalScheduler
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobStore
from forge_proxy.jobs.service import Jobs
from forge_proxy.jobs.writers import JobWriters
from forge_proxy.settings import build_settings
from forge_proxy.store.database import Database
from forge_proxy.store.task_calls import TaskCallRepository
from forge_proxy.tasks.config import TasksConfig, TiersConfig
from forge_proxy.tasks.errors import TaskNotFound
from forge_proxy.tasks.phase_run import TaskDeps
from forge_proxy.tasks.ports import CheckRequest, Repositories
from forge_proxy.tasks.service import StoredTask, TaskService
from forge_proxy.tasks.structured_call import StructuredCaller
from forge_proxy.telemetry.task_call_writer import TaskCallWriter
from tests.fakes.owned_store import OwnedJobRepository
from tests.fakes.repository import UserRepository, create_repository, repositories_of
from tests.fakes.scripted import ScriptedHttp, ScriptedResponse, whole
from tests.fakes.task_model import TaskModel, TaskRequest

SECONDS = 30
CHAT = "/v1/chat/completions"
CART = "class Cart:\n    def __init__(self):\n        self.items = []\n"
_OWN = ("plan", "after", "max_attempts", "base", "models", "max_fan_out_depth", "conflicts", "mode")
"""Fields of a submission that are not those of its task."""
FILES: dict[str, str | bytes] = {"cart.py": CART, "README.md": "# Shop\n", "AGENTS.md": "Use type hints.\n"}


@dataclass
class FakeChecks:
    """`tasks.ports.Checks` that finds each line with `BAD` in Python files, and removes trailing `FIXME`."""

    seen: list[CheckRequest] = field(default_factory=list[CheckRequest])
    merged_findings: list[str] = field(default_factory=list[str])
    """Paths in which the next checks of whole changes have a finding, one for each check."""

    async def fix(self, request: CheckRequest) -> None:
        self._fix(request)

    def _fix(self, request: CheckRequest) -> None:
        for path in request.files:
            file = Path(request.worktree.path, path)
            if file.exists():
                file.write_text(file.read_text().replace("  # FIXME", ""))

    async def record_baseline(self, request: CheckRequest) -> Baseline:
        return Baseline(tuple(self._find(request)))

    async def run(self, request: CheckRequest, baseline: Baseline) -> Sequence[ValidationResult]:
        self.seen.append(request)
        known = {(finding.path, finding.message) for finding in baseline.findings}
        found = tuple(one for one in self._find(request) if (one.path, one.message) not in known)
        if self.merged_findings and not request.is_part:
            found += (Finding("lint", "only in the merged files", self.merged_findings.pop(0), 1),)
        return [ValidationResult("lint", not found, findings=found), ValidationResult("format", True)]

    def _find(self, request: CheckRequest) -> list[Finding]:
        found: list[Finding] = []
        for path in request.files:
            file = Path(request.worktree.path, path)
            lines = file.read_text().splitlines() if file.exists() else []
            found += [Finding("lint", f"bad line: {text.strip()}", path, number, code="X1")
                      for number, text in enumerate(lines, 1) if "BAD" in text]  # fmt: skip
        return found


@dataclass
class TaskHttp(ScriptedHttp):
    """`HttpClient` of a scripted model, which answers a generation once `before` has returned, and continues after the
    first token once `after_first_token` has. It answers requests of self-tests once `before_test` has returned.
    """

    before: Callable[[TaskRequest], Awaitable[None]] | None = None
    after_first_token: Callable[[TaskRequest], Awaitable[None]] | None = None
    before_test: Callable[[], Awaitable[None]] | None = None
    is_down: bool = False

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
        request = TaskRequest.read(json.loads(whole(body))) if method == "POST" else None
        if self.is_down:
            raise BackendUnreachable(url, "connection refused")
        if self.before_test is not None and request is not None and request.operation == "other":
            await self.before_test()
        is_generation = request is not None and request.operation == "generate"
        if self.before is not None and request is not None and is_generation:
            await self.before(request)
        async with super().open(method, url, body=body, headers=headers, seconds=seconds) as response:
            if self.after_first_token is not None and request is not None and is_generation:
                hold = partial(self.after_first_token, request)
                response = HeldResponse(response.status, response.data, response.content_type, response.cut, hold)
            yield response


@dataclass
class HeldResponse(ScriptedResponse):
    """A response whose stream continues after its first token once `hold` has returned."""

    hold: Callable[[], Awaitable[None]]

    async def pieces(self) -> AsyncIterator[bytes]:
        events = [event + b"\n\n" for event in self.data.split(b"\n\n") if event]
        first = next(number for number, event in enumerate(events) if b'"content": "' in event)
        for number, event in enumerate(events):
            yield event
            if number == first:
                await self.hold()


class World:
    """A repository, its tasks, and the model that works on them."""

    def __init__(
        self, folder: Path, model: TaskModel, tasks: TaskService, repository: UserRepository, checks: FakeChecks,
        http: TaskHttp, jobs: Jobs, files: Files,
    ) -> None:  # fmt: skip
        self.http = http
        self.jobs: Jobs = jobs
        self.files: Files = files
        self.ahead = 0.0
        """Seconds by which the time of batches is ahead."""
        self.checks = checks
        self.folder = folder
        self.model = model
        self.tasks = tasks
        self.repository = repository
        self.calls_error: StoreUnavailable | None = None
        """What prevents that records of calls are stored."""
        self.repositories: Repositories | None = None
        self.call_log: TaskCallWriter | None = None
        self.call_store: TaskCallRepository | None = None
        self.store: OwnedJobRepository
        self.turn_lock = asyncio.Lock()
        """Held, it keeps tasks from looking whether they have their turn."""
        self.waker_is_deaf = False
        """Whether nobody is woken, as if the daemon had been killed before."""

    async def submit(self, *, key: str | None = None, **fields: Any) -> StoredTask:
        """Submit a task that changes cart.py. `key` is an `Idempotency-Key`."""
        wanted: dict[str, Any] = {"description": "Add a total.", "target_files": ["cart.py"], "task_id": "total"}
        own = {name: fields.pop(name) for name in list(fields) if name in _OWN}
        return await self.tasks.submit(
            ForgeTaskInput.model_validate(
                {"task": {**wanted, **fields}, "repository": str(self.repository.path), **own}
            ),
            key,
        )

    async def wait(self, *statuses: str, task_id: str = "total") -> StoredTask:
        """Wait until the task has one of these statuses."""
        async with asyncio.timeout(SECONDS):
            async for _ in self.tasks.follow_events(task_id):
                found = await self.tasks.get(task_id)
                if found.job.status in statuses:
                    return found
            found = await self.tasks.get(task_id)
            assert found.job.status in statuses, (found.job.status, found.job.outcome)
            return found

    async def run(self, **fields: Any) -> StoredTask:
        """Submit a task and wait until it waits or ends."""
        await self.submit(**fields)
        return await self.wait("requires_action", "halted", "completed", "failed", "cancelled")

    async def events(self, task_id: str = "total") -> list[JobEvent]:
        """Return the events of a task so far."""
        head = (await self.tasks.get(task_id)).job.last_event
        found: list[JobEvent] = []
        async for event in self.tasks.follow_events(task_id):
            found.append(event)
            if event.id >= head:
                break
        return found

    async def wait_for_event(self, kind: str, task_id: str) -> None:
        """Wait until a task, which may not exist yet, has an event of a type."""
        async with asyncio.timeout(SECONDS):
            while True:
                with suppress(TaskNotFound):
                    if kind in {event.type for event in await self.events(task_id)}:
                        return
                await asyncio.sleep(0.01)

    async def merge_without_record(self, method: MergeMethod) -> str:
        """Merge the branch of the task, as an approval does before the daemon is killed; return the new base."""
        state = (await self.tasks.get("total")).state
        assert self.repositories is not None
        merged = await self.repositories.merge(
            state.repository.path, "forge/total", "main", expected_head=state.head,
            expected_base=state.repository.base_commit, method=method, message="Add a total.",
        )  # fmt: skip
        return merged.commit

    async def stored_calls(self, task_id: str) -> list[TaskCallRecord]:
        """Return the records of calls in the database, once no record waits."""
        assert self.call_log is not None
        assert self.call_store is not None
        async with asyncio.timeout(SECONDS):
            while self.call_log.waiting:  # noqa: ASYNC110  # the writer reports nothing
                await asyncio.sleep(0.02)
        return [*await self.call_store.list(task_id)]

    def worktrees(self) -> list[str]:
        """Return the worktrees of tasks that git knows."""
        listed = self.repository.git("worktree", "list", "--porcelain")
        return [
            line for line in listed.splitlines() if line.startswith("worktree ") and str(self.folder / "state") in line
        ]

    async def wait_until_clean(self) -> None:
        """Wait until no worktree of a task is left: those of cancelled ones are removed in the background."""
        async with asyncio.timeout(SECONDS):
            while self.worktrees():  # noqa: ASYNC110 - nothing reports that they are removed
                await asyncio.sleep(0.05)


@asynccontextmanager
async def open_world(
    folder: Path,
    *rules: dict[str, Any],
    tiers: dict[str, Any] | None = None,
    window: int | None = 32_768,
    max_depth: int = 1,
    files: dict[str, str | bytes] | None = None,
    checks: FakeChecks | None = None,
    prompt_order: PromptOrder = "shared",
    slots: int | None = None,
    has_batches: bool = False,
    shared: str | None = None,
    turn_seconds: float | None = None,
) -> AsyncGenerator[World]:
    """Open a world whose model answers by these rules. `shared` is a database that it shares with others."""
    path = folder / "repository"
    repository = UserRepository(path) if path.exists() else create_repository(path, files or FILES)
    model = TaskModel.of(*rules)
    http = TaskHttp((), model=model.answer, window=window)
    backend = OpenAICompatible("http://scripted", http)
    admission = None if slots is None else Admission(backend, MonotonicClock(), lambda _: None, slots=slots)
    engine = Engine(EngineConfig(backend, MonotonicClock(), lambda _: None, admission=admission))
    url = shared or f"sqlite+aiosqlite:///{folder}/jobs.db"
    store = await OwnedJobRepository.open(url, is_shared=shared is not None)
    errors: list[Exception] = []

    @asynccontextmanager
    async def open_store() -> AsyncGenerator[JobStore]:
        yield store

    async def open_jobs() -> JobStore:
        return store

    async def open_calls() -> TaskCallRepository:
        if world.calls_error is not None:
            raise world.calls_error
        return TaskCallRepository(store.database)

    def report(_: str, error: Exception) -> None:
        errors.append(error)

    class OpenedDatabase(SharedDatabase):
        async def get(self) -> Database:
            return store.database

    def now() -> float:
        return time.time() + world.ahead

    config = TasksConfig(repositories=(path,), max_fan_out_depth=max_depth, prompt_order=prompt_order)
    batching = build_batches(build_settings({}), OpenedDatabase(""), lambda: 4, now)
    if has_batches:
        app = create_app(engine, backend, ServerConfig())
        batching.executor.attach(app, (CHAT,), 1_000_000, MemoryBudget(10_000_000))
    form = {"generation": {"response_form": "json"}}
    caller = StructuredCaller(engine, TiersConfig.model_validate(tiers or form), MonotonicClock())
    checks = checks or FakeChecks()
    log: FilteringBoundLogger = structlog.get_logger()
    calls = TaskCallWriter(open_calls, log)
    writing = asyncio.create_task(calls.run())
    deps = TaskDeps(
        repositories_of(folder / "state", path), checks, caller, open_jobs, config, time.time, report, calls,
        TaskBatches(batching.files, open_jobs, now, 24) if has_batches else None,
        turn_seconds=turn_seconds,
    )  # fmt: skip
    parts = TaskParts(deps, BackgroundTasks())
    kinds = JobKinds(*parts.handlers(), *batching.handlers())
    phases = PhaseDeps(kinds, time.time, report)
    writers = JobWriters(open_store, time.time)
    jobs = Jobs(writers, LocalScheduler(writers, phases, {"tasks": lambda: 4, "checks": lambda: 1}), phases)
    tasks = TaskService(jobs, deps)
    waking = BackgroundTasks()
    waker = tasks.turn_waker(waking)
    try:
        world = World(folder, model, tasks, repository, checks, http, jobs, batching.files)
        world.turn_lock, world.call_log, world.repositories = deps.turn_lock, calls, deps.repositories
        world.store = store
        world.call_store = TaskCallRepository(store.database)

        def wake(before: StoredJob, after: StoredJob) -> None:
            if not world.waker_is_deaf:
                waker.on_change(before, after)

        writers.subscribe(wake, waker.on_open)
        yield world
    finally:
        await waking.close()
        await calls.close(writing)
        await jobs.close()
        await batching.files.close()
        await parts.cleaning.close()
        await store.close()
    assert not errors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder for the repository and the state."""
    return tmp_path
