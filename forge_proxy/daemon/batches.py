"""Builds the files and batches of a daemon."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from forge_proxy.api.batch_lines import BatchLineExecutor
from forge_proxy.batches.batch_handler import BatchHandler
from forge_proxy.batches.files import Files
from forge_proxy.batches.line_permits import LinePermits
from forge_proxy.batches.ports import FileStore
from forge_proxy.batches.prefix_gate import PrefixGate
from forge_proxy.batches.service import Batches
from forge_proxy.batches.shard_handler import ShardDeps, ShardHandler
from forge_proxy.daemon.database import SharedDatabase
from forge_proxy.engine.memory import MEGABYTE
from forge_proxy.jobs.ports import JobHandler, JobStore
from forge_proxy.jobs.service import Jobs
from forge_proxy.settings import Settings


@dataclass(frozen=True, slots=True)
class BatchParts:
    """The files of a daemon, and the dependencies of its batches."""

    files: Files
    executor: BatchLineExecutor
    deps: ShardDeps
    max_body: int

    def handlers(self) -> tuple[JobHandler, ...]:
        """Return the kinds of jobs of batches."""
        return BatchHandler(self.deps, self.max_body), ShardHandler(self.deps)

    def service(self, jobs: Jobs, check_notify_url: Callable[[str], None]) -> Batches:
        """Return the operations on batches."""
        return Batches(jobs, self.deps, self.deps.now, check_notify_url)


def build_batches(
    settings: Settings,
    database: SharedDatabase,
    slots: Callable[[], int],
    now: Callable[[], float] = time.time,
) -> BatchParts:
    """Return the files and batches of a daemon; `slots` returns how many lines the model server computes at a time."""

    async def open_files() -> FileStore:
        opened = await database.get()
        return import_module("forge_proxy.store.files").FileRepository(opened)

    async def open_jobs() -> JobStore:
        opened = await database.get()
        return import_module("forge_proxy.store.jobs").JobRepository(opened)

    files, executor = Files(open_files, now, settings.files), BatchLineExecutor()
    permits = LinePermits(slots)
    deps = ShardDeps(files, open_jobs, executor, permits, PrefixGate(), settings.batches, now)
    return BatchParts(files, executor, deps, int(settings.server.max_body_mb * MEGABYTE))
