"""Those who drive the runs of a daemon, each in its turn, and go on with what an earlier daemon left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from forge_proxy.workflows.cancellation import Cancelled, take
from forge_proxy.workflows.runs.errors import NotReadable, RunConflict, RunNotFound, StoreInUse, StoreUnavailable
from forge_proxy.workflows.runs.execution import ExecutionDeps, cancel, drive
from forge_proxy.workflows.runs.ports import RunStore
from forge_proxy.workflows.runs.records import RunHead, StoredRun
from forge_proxy.workflows.runs.run_writer import RunWriter

T = TypeVar("T")

_AGAIN_AFTER = 1.0
"""Seconds after which a store is asked again that could not be used."""


class RunScheduler:
    """Of all runs of a daemon, at most `max_running` at a time. `open_store` is called once, when it is first needed;
    `tell` hears of each change of a run, what was and what is.
    """

    def __init__(
        self,
        open_store: Callable[[], Awaitable[RunStore]],
        means: ExecutionDeps,
        max_running: int,
        now: Callable[[], float],
        tell: Callable[[StoredRun, StoredRun], None],
    ) -> None:
        self._open_store = open_store
        self._means = means
        self._now = now
        self._tell = tell
        self._places = asyncio.Semaphore(max_running)
        self._store: RunStore | None = None
        self._opening = asyncio.Lock()
        self._keepers: WeakValueDictionary[str, RunWriter] = WeakValueDictionary()
        self._fetching = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def store(self) -> RunStore:
        """What keeps the runs. When it is opened, unfinished ones are gone on with. Raises `StoreUnavailable`."""
        if self._store is None:
            async with self._opening:
                if self._store is None:
                    store = await self._open_store()
                    try:
                        left = [await store.get(head.id) for head in await store.unfinished() if _is_ours(head)]
                    except BaseException:
                        await store.close()  # or its lock would be held against the next attempt
                        raise
                    self._store = store
                    for run in left:
                        self._go_on(run, store)
        return self._store

    @asynccontextmanager
    async def changing(self, run_id: str) -> AsyncGenerator[RunWriter]:
        """The keeper of a run, for who looks at it and then changes it. Raises `StoreUnavailable` and `RunNotFound`."""
        keeper = await self._keeper(run_id)
        async with keeper.changing():
            try:
                yield keeper
            except StoreUnavailable:
                self._spawn(self._find_out(keeper))
                raise

    async def begin_new(self, run_id: str) -> None:
        """Drive a run that is queued, where nobody does: also one that was submitted before, by a request that failed
        in the end.
        """
        keeper = await self._keeper(run_id)
        if keeper.run.status == "queued" and keeper.drivers == 0:  # what was found of it may be past by now
            self.begin(keeper)

    def begin(self, keeper: RunWriter) -> None:
        """Drive a run, once it has its turn."""
        keeper.drivers += 1
        self._spawn(self._drive(keeper))

    async def undisturbed(self, work: Coroutine[Any, Any, T]) -> T:
        """What is asked of the store for somebody who may leave at any moment: a connection to a database whose user is
        cancelled is thrown away.
        """
        return await asyncio.shield(self._spawn(work))

    def forget(self, run_id: str) -> None:
        """It has been deleted."""
        self._keepers.pop(run_id, None)

    async def close(self) -> None:
        """Stop where every run is: what is stored can be gone on with."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._store is not None:
            await self._store.close()

    def _go_on(self, run: StoredRun, store: RunStore) -> None:
        """Drive a run that an earlier daemon left unfinished."""
        try:
            keeper = self._keepers[run.id] = RunWriter(run, store, self._tell, self._now)
        except NotReadable as error:  # it is left alone: the version that wrote it can go on with it
            self._means.report(run.id, error)
        else:
            self.begin(keeper)

    async def _find_out(self, keeper: RunWriter) -> None:
        """What became of a change that may or may not have been stored: the run may have to be driven on."""
        while True:
            await asyncio.sleep(_AGAIN_AFTER)
            try:
                async with keeper.alone:
                    await keeper.settle()
                    if keeper.run.status == "queued" and keeper.drivers == 0:
                        self.begin(keeper)
            except StoreInUse:
                return
            except StoreUnavailable:
                continue
            return

    async def _keeper(self, run_id: str) -> RunWriter:
        store = await self.store()
        async with self._fetching:
            keeper = self._keepers.get(run_id)
            if keeper is None:
                keeper = RunWriter(await store.get(run_id), store, self._tell, self._now)
                self._keepers[run_id] = keeper
            return keeper

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _drive(self, keeper: RunWriter) -> None:
        try:
            await self._in_turn(keeper)
        except (StoreUnavailable, RunConflict, RunNotFound) as error:
            self._means.report(keeper.run.id, error)  # it is not ours any more
            self._keepers.pop(keeper.run.id, None)
        finally:
            keeper.drivers -= 1

    async def _in_turn(self, keeper: RunWriter) -> None:
        try:
            await take(self._places, keeper.cancel)
        except Cancelled:
            async with keeper.alone:
                return await cancel(keeper, patient=True)
        try:
            await drive(keeper, self._means)
        finally:
            self._places.release()


def _is_ours(run: RunHead) -> bool:
    """Whether an unfinished run is for us to go on with, and not for its caller."""
    return run.status != "requires_action" or run.cancel_requested
