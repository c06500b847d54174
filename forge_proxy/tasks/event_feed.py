"""The events of a task with those of its sub-tasks in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import replace

import orjson

from forge_proxy.core.jobs.records import JobEvent
from forge_proxy.jobs.service import Jobs
from forge_proxy.tasks.turns import KIND

_MAX_WAITING = 100
"""Events of sub-tasks that wait for a slow reader."""
NO_ID = 0
"""The id of the events of sub-tasks, which are numbered apart from those of the task."""


async def follow_with_sub_tasks(jobs: Jobs, task_id: str, after: int) -> AsyncGenerator[JobEvent]:
    """Yield the events of a task with ids greater than `after`, and those of its sub-tasks.

    The latter have the id `NO_ID`, and their task in `data`. They follow the event that has started them; a task waits
    for its sub-tasks. Of sub-tasks that were started before `after`, those that have not ended are repeated.
    """
    if after:
        below = await jobs.list_descendants([(await jobs.head(task_id)).root])
        children = (head for head in below if head.parent == task_id and head.kind == KIND)
        unfinished = [head.id for head in children if not head.is_finished]
        async with aclosing(_follow_sub_tasks(jobs, unfinished)) as events:
            async for event in events:
                yield event
    async with aclosing(jobs.follow_events(task_id, after)) as own:
        async for event in own:
            yield event
            if event.type == "sub_tasks_started":
                async with aclosing(_follow_sub_tasks(jobs, orjson.loads(event.data)["sub_tasks"])) as events:
                    async for one in events:
                        yield one


async def _follow_sub_tasks(jobs: Jobs, ids: Iterable[str]) -> AsyncGenerator[JobEvent]:
    """Yield the events of several tasks as they happen, until all of them have ended."""
    queue = asyncio.Queue[JobEvent | Exception | None](_MAX_WAITING)

    async def forward(task_id: str) -> None:
        try:
            async with aclosing(follow_with_sub_tasks(jobs, task_id, 0)) as events:
                async for event in events:
                    data = orjson.loads(event.data)
                    marked = orjson.dumps({"task": task_id, **data}).decode()  # that of a nested one stays
                    await queue.put(replace(event, id=NO_ID, data=marked))
        except Exception as error:  # noqa: BLE001 - the reader raises it
            await queue.put(error)
        else:
            await queue.put(None)

    tasks = [asyncio.create_task(forward(task_id)) for task_id in ids]
    try:
        left = len(tasks)
        while left:
            match await queue.get():
                case None:
                    left -= 1
                case JobEvent() as event:
                    yield event
                case error:
                    raise error
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
