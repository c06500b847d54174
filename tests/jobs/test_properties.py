"""Random trees of jobs in a process that is killed at random moments end as a process that is never killed ends them.

A kill is simulated in the store: from some operation on, before or after it was carried out, nothing is answered. Then
the process is abandoned, and another one opens the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.jobs import retries
from forge_proxy.jobs.kinds import JobKinds
from forge_proxy.jobs.local_scheduler import LocalScheduler
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobStore
from forge_proxy.jobs.service import Jobs
from forge_proxy.jobs.writers import JobWriters
from tests.fakes.owned_store import OwnedJobRepository
from tests.fakes.random_jobs import RandomKind, check_random_jobs, drive
from tests.properties import sample


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


@asynccontextmanager
async def process(seed: int, store: MortalStore, now: Callable[[], float]) -> AsyncGenerator[RandomKind]:
    """Yield the random jobs of a process that uses the store."""
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
        yield kind
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
            driving, death = asyncio.create_task(drive(running)), asyncio.create_task(mortal.died.wait())
            async with asyncio.timeout(60):
                await asyncio.wait({driving, death}, return_when=asyncio.FIRST_COMPLETED)
                await mortal.settle()
            for task in (driving, death):
                task.cancel()
            ended = await asyncio.gather(driving, death, return_exceptions=True)
            assert left or ended[0] is None, (left, ended, mortal.died.is_set(), driving)
            assert all(end is None or end is True or isinstance(end, asyncio.CancelledError) for end in ended), ended


@pytest.mark.parametrize("seed", sample(range(40), 3))
async def test_d3_killed_processes_lose_nothing_and_repeat_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "_ATTEMPT_SECONDS", (0.01,))
    store = await OwnedJobRepository.open(f"sqlite+aiosqlite:///{tmp_path}/jobs.db")
    try:
        await run_to_end(seed, store, kills=seed % 8)
        await check_random_jobs(seed, store)
    finally:
        await store.close()


async def test_a_job_that_does_not_exist_is_neither_woken_nor_cancelled(tmp_path: Path) -> None:
    store = await OwnedJobRepository.open(f"sqlite+aiosqlite:///{tmp_path}/jobs.db")
    async with process(0, MortalStore(store, 10**9, dies_after=True), lambda: 1.0) as running:
        for operation in (running.jobs.wake, running.jobs.cancel):
            with pytest.raises(JobNotFound):
                await operation("job_1")
    await store.close()
