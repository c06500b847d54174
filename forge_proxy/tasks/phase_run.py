"""One phase of a task while it runs: its state, what it stages, and the documents it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from forge_proxy.core.jobs.errors import JobNotReadable
from forge_proxy.core.jobs.records import Document, NewEvent
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.tasks.ids import branch_of
from forge_proxy.core.tasks.records import TaskState, read_task, write_task
from forge_proxy.core.tasks.scopes import WriteScope
from forge_proxy.core.tasks.task_scope import scope_of_step, scope_of_task
from forge_proxy.core.tasks.workspace import Worktree
from forge_proxy.jobs.ports import JobStore
from forge_proxy.jobs.writer import JobWriter
from forge_proxy.tasks.config import TasksConfig
from forge_proxy.tasks.ports import CallLog, Checks, Repositories, RequestBatches
from forge_proxy.tasks.shared_prefixes import SharedPrefixes
from forge_proxy.tasks.structured_call import StructuredCaller


@dataclass(frozen=True, slots=True)
class TaskDeps:
    """The dependencies of the execution of tasks."""

    repositories: Repositories
    checks: Checks
    caller: StructuredCaller
    open_jobs: Callable[[], Awaitable[JobStore]]
    config: TasksConfig
    now: Callable[[], float]
    report: Callable[[str, Exception], None]
    """Called with a job's id and an internal error."""
    call_log: CallLog | None = None
    """None: no calls are recorded."""
    batches: RequestBatches | None = None
    """None: tasks cannot have the mode `batch`."""
    turn_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a task looks whether it has its turn, and stores that."""
    turn_seconds: float | None = None
    """After how long a task that waits for its turn looks again. None: only a change of another task wakes it."""
    prefixes: SharedPrefixes = field(default_factory=SharedPrefixes)
    """Of the calls of sub-tasks, by their parents."""


class PhaseRun:
    """A phase of a task. What it stages is stored with the action that it returns."""

    def __init__(self, writer: JobWriter, deps: TaskDeps) -> None:
        self.writer = writer
        self.deps = deps
        self.state: TaskState = read_task(writer.state)

    @property
    def scope(self) -> WriteScope:
        """What the current attempt may write."""
        wanted, progress = self.state.input, self.state.progress
        whole = scope_of_task(wanted.task, self.deps.config.protected, is_planned=wanted.plan)
        step = progress.current
        scope = whole if step is None else scope_of_step(whole, step)
        return replace(scope, may=self.state.conflicts) if progress.operation == "resolve_conflicts" else scope

    def stage(self, *events: NewEvent, documents: Sequence[Document] = (), **changes: Any) -> None:
        """Stage events, documents, and changes of the state."""
        self.state = replace(self.state, **changes)
        self.writer.stage(*events, state=write_task(self.state), documents=documents)

    def event(self, kind: str, **data: Json) -> NewEvent:
        """Return an event that also names the current operation, attempt and step."""
        progress = self.state.progress
        place: dict[str, Json] = {"operation": progress.operation, "attempt": progress.attempt}
        if (step := self.state.step_id) is not None:
            place["step"] = step
        return NewEvent(kind, {**place, **data})

    @property
    def base(self) -> str:
        """The commit from which the task or the sub-task has begun."""
        return self.state.repository.base_commit if self.state.parent is None else self.state.parent.commit

    @property
    def own_worktree(self) -> Worktree:
        """The worktree, also if it does not exist or was not stored."""
        state = self.state
        unknown = Worktree(state.task_id, state.repository.path, "", branch_of(state.task_id), self.base)
        return state.worktree or unknown

    async def worktree(self) -> Worktree:
        """Return the worktree, which is created again if it was removed."""
        state, base = self.state, self.base
        return await self.deps.repositories.open_worktree(state.repository.path, state.task_id, base)

    async def read_document(self, digest: str) -> bytes:
        """Return the content of a document. Raises `JobNotReadable`."""
        found = await (await self.deps.open_jobs()).read_documents([digest])
        if digest not in found:
            raise JobNotReadable("a document of the task is missing")
        return found[digest]

    async def read_json(self, digest: str) -> Any:
        """Return the value of a document."""
        return orjson.loads(await self.read_document(digest))


def json_document(value: object) -> Document:
    """Return a document with a value as JSON."""
    return Document(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def decode_texts(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return files as texts, for prompts and reports."""
    return {path: data.decode(errors="replace") for path, data in files.items()}
