"""A kind of jobs whose trees are random, what drives them, and what has to be stored of them in the end.

What a job does depends only on a seed and on its id, so that any number of processes, however they end, has to come to
the same result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, TypeAlias, get_args

import orjson

from forge_proxy.core.jobs.actions import Finished, NewJob, NextAction, RunPhase, StartChildren, Wait
from forge_proxy.core.jobs.errors import JobConflict
from forge_proxy.core.jobs.records import IdempotencyClaim, JobHead, NewEvent, StoredJob
from forge_proxy.jobs.ports import JobFilter, JobStore
from forge_proxy.jobs.service import Jobs
from forge_proxy.jobs.writer import JobWriter
from tests.fakes.job_kind import continue_job

Step: TypeAlias = Literal["next", "time", "wake", "client", "children", "flaky", "doomed"]
"""`wake`: the job is woken once, during the phase, and nobody wakes it again. `client`: it waits for the driver."""
ROOTS = ("a", "b", "c")
MAX_DEPTH = 3


def script_of(seed: int, job: StoredJob | JobHead) -> list[Step]:
    """Return the steps of a job, which depend only on its id."""
    random = Random(f"{seed}/{job.id}")
    every: tuple[Any, ...] = get_args(Step)
    steps: list[Any] = [step for step in every if step != "children" or job.depth + 1 < MAX_DEPTH]
    weights = [1 if step == "doomed" else 6 for step in steps]
    return random.choices(steps, weights, k=random.randint(0, 5))


def children_of(seed: int, job: StoredJob, number: int) -> tuple[NewJob, ...]:
    """Return the child jobs that a job creates in a step."""
    count = Random(f"{seed}/{job.id}/{number}").randint(1, 3)
    return tuple(NewJob(f"{job.id}.{number}.{place}", "random", "c", "{}") for place in range(count))


@dataclass
class RandomKind:
    """`JobHandler`: each phase is one step of the job's script, and takes `seconds`."""

    seed: int
    now: Callable[[], float]
    seconds: float = 0.0
    kind: str = "random"
    jobs: Jobs = field(init=False)
    store: JobStore = field(init=False)

    def first_action(self, job: StoredJob) -> RunPhase:
        """See `JobHandler`."""
        return self._phase(job, 0)

    def _phase(self, job: StoredJob | JobHead, number: int) -> RunPhase:
        queue = Random(f"{self.seed}/{job.id}/{number}/queue").choice(["one", "two"])
        return RunPhase(str(number), queue, max_attempts=2)

    async def run_phase(self, writer: JobWriter, phase: RunPhase) -> NextAction:
        """See `JobHandler`."""
        job, number = writer.job, int(phase.phase)
        assert await self.store.list_unfinished(parent=job.id) == [], "a phase ran before the child jobs had ended"
        await asyncio.sleep(self.seconds)
        script = script_of(self.seed, job)
        writer.stage(NewEvent("step", {"number": number}))
        if number == len(script):
            return Finished()
        then = self._phase(job, number + 1)
        match script[number]:
            case "next":
                return then
            case "time":
                return Wait(self.now() + 0.01, then)
            case "wake":
                await self.jobs.wake(job.id)
                return Wait(None, then)
            case "client":
                return Wait(None, then, "requires_action")
            case "children":
                return StartChildren(children_of(self.seed, job, number), then)
            case "flaky":
                if phase.attempt == 1:
                    raise ValueError("flaky")
                return then
            case "doomed":
                raise ValueError("doomed")

    def on_cancel(self, writer: JobWriter) -> None:
        """See `JobHandler`."""
        writer.stage(NewEvent("cleaned_up", {}))


async def drive(kind: RandomKind) -> None:
    """Submit the roots, cancel some of them, and continue the jobs that wait for their client, until all have ended."""
    random = Random(f"{kind.seed}/cancelled")
    cancelled = [root for root in ROOTS if random.random() < 0.3]
    await kind.jobs.resume()
    for root in ROOTS:
        await kind.jobs.submit(NewJob(root, "random", "t", "{}"), claim=IdempotencyClaim(root, root))
    while unfinished := await kind.store.list_unfinished():
        for head in unfinished:
            if head.id in cancelled and head.last_event > 4:
                await _cancel(kind.jobs, head.id)
            elif head.status == "requires_action":
                await continue_job(kind.jobs, head.id)
        await asyncio.sleep(0.002)


async def _cancel(jobs: Jobs, job_id: str) -> None:
    try:
        await jobs.cancel(job_id)
    except JobConflict:  # it has ended meanwhile
        return


async def check_random_jobs(seed: int, store: JobStore) -> None:
    """Assert that every job has done what its script says, once."""
    assert await store.list_unfinished() == []
    heads = {head.id: head for head in await store.list(JobFilter(), before=None, limit=1000)}
    for head in heads.values():
        events = await store.events(head.id, after=0, limit=1000)
        assert [event.id for event in events] == [*range(1, head.last_event + 1)]
        steps = [orjson.loads(event.data)["number"] for event in events if event.type == "step"]
        script = script_of(seed, head)
        assert steps == [*range(len(steps))], f"{head.id}: a step was stored twice or is missing"
        if head.status == "completed":
            assert len(steps) == len(script) + 1
        elif head.status == "failed":
            assert script[len(steps)] == "doomed"
        else:
            assert sum(event.type == "cleaned_up" for event in events) == 1
        job = await store.get(head.id)
        for number in (number for number in steps if number < len(script) and script[number] == "children"):
            assert {child.id for child in children_of(seed, job, number)} <= heads.keys()
        if head.parent is not None:
            assert heads[head.parent].is_finished
    assert {*ROOTS} <= heads.keys()
    for head in heads.values():
        if head.status == "cancelled" and head.parent is not None:
            assert heads[head.root].status == "cancelled", "a child was cancelled without its root"
