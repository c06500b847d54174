"""Random trees of jobs in a process that is killed at random moments end as a process that is never killed ends them.

A kill is simulated in the store: from some operation on, before or after it was carried out, nothing is answered. Then
the process is abandoned, and another one opens the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeAlias, get_args

import orjson
import pytest

from forge_proxy.core.jobs.actions import Finished, NewJob, NextAction, RunPhase, StartChildren, Wait
from forge_proxy.core.jobs.errors import JobConflict, JobNotFound
from forge_proxy.core.jobs.records import IdempotencyClaim, JobHead, NewEvent, StoredJob
from forge_proxy.jobs import retries
from forge_proxy.jobs.kinds import JobKinds
from forge_proxy.jobs.local_scheduler import LocalScheduler
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobFilter, JobStore
from forge_proxy.jobs.service import Jobs
from forge_proxy.jobs.writer import JobWriter
from forge_proxy.jobs.writers import JobWriters
from tests.fakes.owned_store import OwnedJobRepository

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
    count = Random(f"{seed}/{job.id}/{number}").randint(1, 3)
    return tuple(NewJob(f"{job.id}.{number}.{place}", "random", "c", "{}") for place in range(count))


@dataclass
class RandomKind:
    """`JobHandler`: each phase is one step of the job's script."""

    seed: int
    now: Callable[[], float]
    kind: str = "random"
    jobs: Jobs = field(init=False)
    store: JobStore = field(init=False)

    def first_action(self, job: StoredJob) -> RunPhase:
        return self.phase(job, 0)

    def phase(self, job: StoredJob | JobHead, number: int) -> RunPhase:
        queue = Random(f"{self.seed}/{job.id}/{number}/queue").choice(["one", "two"])
        return RunPhase(str(number), queue, max_attempts=2)

    async def run_phase(self, writer: JobWriter, phase: RunPhase) -> NextAction:
        job, number = writer.job, int(phase.phase)
        assert await self.store.unfinished(parent=job.id) == [], "a phase ran before the child jobs had ended"
        script = script_of(self.seed, job)
        writer.stage(NewEvent("step", {"number": number}))
        if number == len(script):
            return Finished()
        then = self.phase(job, number + 1)
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
        writer.stage(NewEvent("cleaned_up", {}))


class MortalStore:
    """A store of a process that dies at the `lives`-th operation, before or after it is carried out."""

    def __init__(self, store: OwnedJobRepository, lives: int, *, dies_after: bool) -> None:
        self._store = store
        self._lives = lives
        self._dies_after = dies_after
        self._busy = 0
        self.died = asyncio.Event()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def operate(*args: Any, **options: Any) -> Any:
            self._lives -= 1
            if self._lives < 0 or (self._lives == 0 and not self._dies_after):
                await self._die()
            self._busy += 1
            try:
                result = await getattr(self._store, name)(*args, **options)
            finally:
                self._busy -= 1
            if self._lives <= 0:
                await self._die()
            return result

        return operate

    async def settle(self) -> None:
        """Wait for the operations that the database carries out: a kill ends them before the next process begins."""
        while self._busy:  # noqa: ASYNC110 - an operation sets no event
            await asyncio.sleep(0.001)

    async def _die(self) -> None:
        self.died.set()
        await asyncio.Event().wait()


class Process:
    """A daemon that has random jobs, and what drives it: a clock, and a client."""

    def __init__(self, seed: int, store: MortalStore, jobs: Jobs, kind: RandomKind) -> None:
        self._random = Random(f"{seed}/cancelled")
        self.cancelled = [root for root in ROOTS if self._random.random() < 0.3]
        self.store = store
        self.jobs = jobs
        self.kind = kind

    async def drive(self) -> None:
        """Submit the roots, cancel some of them, and wake the jobs that wait for their client, until all have ended."""
        await self.jobs.resume()
        for root in ROOTS:
            await self.jobs.submit(NewJob(root, "random", "t", "{}"), claim=IdempotencyClaim(root, root))
        while unfinished := await self.kind.store.unfinished():
            for head in unfinished:
                if head.id in self.cancelled and head.last_event > 4:
                    await self._cancel(head.id)
                elif head.status == "requires_action":
                    await self.jobs.wake(head.id)
            await asyncio.sleep(0.002)

    async def _cancel(self, job_id: str) -> None:
        try:
            await self.jobs.cancel(job_id)
        except JobConflict:  # it has ended meanwhile
            return


@asynccontextmanager
async def process(seed: int, store: MortalStore, now: Callable[[], float]) -> AsyncGenerator[Process]:
    """Yield a process that uses the store."""
    port: Any = store  # it has the methods of the store, by name

    @asynccontextmanager
    async def open_store() -> AsyncGenerator[JobStore]:
        yield port

    kind = RandomKind(seed, now)
    errors: list[Exception] = []
    deps = PhaseDeps(JobKinds(kind), now, lambda _, error: errors.append(error))
    writers = JobWriters(open_store, now)
    jobs = Jobs(writers, LocalScheduler(writers, deps, {"one": lambda: 1}), deps)
    kind.jobs, kind.store = jobs, port
    try:
        yield Process(seed, store, jobs, kind)
    finally:
        await jobs.close()
    assert {str(error) for error in errors} <= {"flaky", "doomed"}


async def run_to_end(seed: int, store: OwnedJobRepository, kills: int) -> None:
    """Run all jobs in processes of which the first ones are killed."""
    random, started = Random(seed), asyncio.get_running_loop().time()

    def now() -> float:
        return 1000 + asyncio.get_running_loop().time() - started

    for left in range(kills, -1, -1):
        lives = random.randint(1, 60) if left else 10**9
        mortal = MortalStore(store, lives, dies_after=random.random() < 0.5)
        async with process(seed, mortal, now) as running:
            driving, death = asyncio.create_task(running.drive()), asyncio.create_task(mortal.died.wait())
            async with asyncio.timeout(60):
                await asyncio.wait({driving, death}, return_when=asyncio.FIRST_COMPLETED)
                await mortal.settle()
            for task in (driving, death):
                task.cancel()
            ended = await asyncio.gather(driving, death, return_exceptions=True)
            assert left or ended[0] is None, (left, ended, mortal.died.is_set(), driving)
            assert all(end is None or end is True or isinstance(end, asyncio.CancelledError) for end in ended), ended


async def check(seed: int, store: OwnedJobRepository) -> None:
    """Assert that every job has done what its script says, once."""
    assert await store.unfinished() == []
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
            assert heads[head.parent].finished
    assert {*ROOTS} <= heads.keys()
    for head in heads.values():
        if head.status == "cancelled" and head.parent is not None:
            assert heads[head.root].status == "cancelled", "a child was cancelled without its root"


@pytest.mark.parametrize("seed", range(40))
async def test_d39_killed_processes_lose_nothing_and_repeat_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "_ATTEMPT_SECONDS", (0.01,))
    store = await OwnedJobRepository.open(f"sqlite+aiosqlite:///{tmp_path}/jobs.db")
    try:
        await run_to_end(seed, store, kills=seed % 8)
        await check(seed, store)
    finally:
        await store.close()


async def test_a_job_that_does_not_exist_is_neither_woken_nor_cancelled(tmp_path: Path) -> None:
    store = await OwnedJobRepository.open(f"sqlite+aiosqlite:///{tmp_path}/jobs.db")
    async with process(0, MortalStore(store, 10**9, dies_after=True), lambda: 1.0) as running:
        for operation in (running.jobs.wake, running.jobs.cancel):
            with pytest.raises(JobNotFound):
                await operation("job_1")
    await store.close()
