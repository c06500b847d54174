"""Reads the sub-tasks of a task and those below them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress

from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.core.jobs.records import JobHead, StoredJob
from forge_proxy.core.tasks.records import TaskState, read_task
from forge_proxy.jobs.ports import JobStore
from forge_proxy.jobs.writer import read_state


async def read_descendants(store: JobStore, task: JobHead) -> AsyncGenerator[tuple[StoredJob, TaskState]]:
    """Yield the sub-tasks of a task and those below them, oldest first. Raises `JobNotReadable`."""
    below = {task.id}
    for head in await store.list_descendants([task.root]):
        if head.kind == task.kind and head.parent in below:  # the other child jobs are batches
            below.add(head.id)
            with suppress(JobNotFound):  # it was deleted meanwhile
                job = await store.get(head.id)
                yield job, read_task(await read_state(store, job))
