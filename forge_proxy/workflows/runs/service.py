"""Runs, for those who submit and watch them: submit, look, answer calls, cancel, delete."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from forge_proxy.workflows.cancelling import Cancelled, take
from forge_proxy.workflows.runs.bells import Bells
from forge_proxy.workflows.runs.documents import write_state
from forge_proxy.workflows.runs.driving import Means, cancel, changes, drive, told
from forge_proxy.workflows.runs.errors import NotReadable, RunConflict, RunNotFound, StoreTaken, StoreUnavailable
from forge_proxy.workflows.runs.keeper import Keeper, numbered
from forge_proxy.workflows.runs.outputs import ToolOutput, apply
from forge_proxy.workflows.runs.ports import Claim, Declaration, RunStore, Toolbox
from forge_proxy.workflows.runs.records import NewEvent, Run, RunEvent, RunHead, RunStatus
from forge_proxy.workflows.runs.submission import Submission

T = TypeVar("T")

_EVENTS_AT_ONCE = 200
_AGAIN_AFTER = 1.0
"""Seconds after which a store is asked again that could not be used."""


class Runs:
    """All runs of a daemon. `open_store` is called once, when it is first needed; `now` tells seconds since 1970.

    Every method raises `StoreUnavailable`, and `RunNotFound` where it is about one run.
    """

    def __init__(
        self,
        open_store: Callable[[], Awaitable[RunStore]],
        means: Means,
        max_running: int,
        now: Callable[[], float],
        moved: Callable[[Run], None] = lambda _: None,
    ) -> None:
        """`moved` hears of each change of status."""
        self._open_store = open_store
        self._means = means
        self._now = now
        self._moved = moved
        self._places = asyncio.Semaphore(max_running)
        self._store: RunStore | None = None
        self._opening = asyncio.Lock()
        self._keepers: WeakValueDictionary[str, Keeper] = WeakValueDictionary()
        self._fetching = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._bells = Bells()

    async def submit(self, submission: Submission, key: str | None = None) -> Run:
        """Store a run, and begin it. With a `key` that was used before, the run that it was used for.

        Raises `InvalidRequest`, `UnknownModel`, or `RunConflict` for a key that was used for something else.
        """
        claim = None if key is None else Claim(key, digest_of(submission))
        self._means.engine.models.served_as(submission.model)
        submission = await declared(submission, self._means.toolbox)
        workflow = submission.workflow.definition()
        state = submission.begin(workflow)
        store = await self._opened()
        now = self._now()
        events = (NewEvent("status", {"status": "queued"}), *told((), state.messages))
        run = Run(
            _new_id(now),
            "queued",
            workflow.name,
            submission.model,
            now,
            now,
            last_event=len(events),
            submission=submission.model_dump_json(),
            state=write_state(state),
        )
        stored = await store.create(run, numbered(events, 0, now), claim)
        if stored.id == run.id:
            self._moved(stored)
        if stored.status == "queued":
            keeper = await self._keeper(stored.id)
            # Also one that was submitted before, by a request that failed in the end; but what was found of it may be
            # past by now.
            if keeper.run.status == "queued" and keeper.drivers == 0:
                self._begin(keeper)
        return stored

    async def get(self, run_id: str) -> Run:
        """A run as it is now."""
        return await (await self._opened()).get(run_id)

    async def head(self, run_id: str) -> RunHead:
        """What is listed of it."""
        return await (await self._opened()).head(run_id)

    async def list(self, *, before: str | None, limit: int, status: RunStatus | None) -> Sequence[RunHead]:
        """Runs, newest first; with `before` only those that are older than that one."""
        return await (await self._opened()).list(before=before, limit=limit, status=status)

    async def put_outputs(self, run_id: str, outputs: Sequence[ToolOutput]) -> Run:
        """Take what came of calls that the caller executes; after the last one the run goes on.

        Raises `InvalidRequest` or `RunConflict`, and then none of them is taken.
        """
        async with self._changing(run_id) as keeper:
            before = keeper.state
            state, new = apply(before, outputs, waiting=keeper.run.status == "requires_action")
            if not new:
                return keeper.run
            complete = state.batch is not None and not state.batch.open
            events = [*told(before.messages, state.messages), *changes(before, state)]
            if complete:
                events.append(NewEvent("status", {"status": "queued"}))
            await keeper.write(*events, state=state, status="queued" if complete else None)
            if complete:
                self._begin(keeper)
            return keeper.run

    async def cancel(self, run_id: str) -> Run:
        """Cancel a run: at once, or when the tool has ended that is executed now. Raises `RunConflict` for one that has
        ended otherwise.
        """
        async with self._changing(run_id) as keeper:
            match keeper.run.status:
                case "requires_action":
                    await cancel(keeper)
                case "queued" | "running":
                    if not keeper.run.cancel_requested:
                        await keeper.write(NewEvent("cancel_requested", {}), cancel=True)
                case "completed" | "failed" as status:
                    raise RunConflict(f"the run {run_id} is {status}: there is nothing to cancel")
                case "cancelled":
                    pass
            return keeper.run

    async def delete(self, run_id: str) -> None:
        """Forget a run that has ended. Raises `RunConflict` for one that has not."""
        store = await self._opened()
        head = await store.head(run_id)
        if not head.finished:
            raise RunConflict(f"the run {run_id} is {head.status}: cancel it first")
        await store.delete(run_id)
        self._keepers.pop(run_id, None)
        self._bells.ring(run_id)

    async def feed(self, run_id: str, after: int = 0) -> AsyncGenerator[RunEvent]:
        """The events of a run after one, as they happen; ends after the last one, or when the daemon does."""
        store = await self._opened()
        while not self._bells.closed:
            bell = self._bells.of(run_id)
            events = await self._undisturbed(store.events(run_id, after=after, limit=_EVENTS_AT_ONCE))
            for event in events:
                yield event
                after = event.id
            if events:
                continue
            head = await self._undisturbed(store.head(run_id))
            if head.last_event > after:  # it came after we had looked
                continue
            if head.finished:
                return
            await bell.wait()

    async def resume(self) -> None:
        """Go on with the runs that an earlier daemon left unfinished."""
        await self._opened()

    def leave(self) -> None:
        """Have those leave who watch: the daemon is about to stop."""
        self._bells.close()

    async def close(self) -> None:
        """Stop where every run is: what is stored can be gone on with."""
        self.leave()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._store is not None:
            await self._store.close()

    async def _opened(self) -> RunStore:
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

    def _go_on(self, run: Run, store: RunStore) -> None:
        """Drive a run that an earlier daemon left unfinished."""
        try:
            keeper = self._keepers[run.id] = Keeper(run, store, self._changed, self._now)
        except NotReadable as error:  # it is left alone: the version that wrote it can go on with it
            self._means.report(run.id, error)
        else:
            self._begin(keeper)

    @asynccontextmanager
    async def _changing(self, run_id: str) -> AsyncGenerator[Keeper]:
        """The keeper of a run, for who looks at it and then changes it."""
        keeper = await self._keeper(run_id)
        async with keeper.changing():
            try:
                yield keeper
            except StoreUnavailable:
                self._spawn(self._find_out(keeper))
                raise

    async def _find_out(self, keeper: Keeper) -> None:
        """What became of a change that may or may not have been stored: the run may have to be driven on."""
        while True:
            await asyncio.sleep(_AGAIN_AFTER)
            try:
                async with keeper.alone:
                    await keeper.settle()
                    if keeper.run.status == "queued" and keeper.drivers == 0:
                        self._begin(keeper)
            except StoreTaken:
                return
            except StoreUnavailable:
                continue
            return

    async def _keeper(self, run_id: str) -> Keeper:
        store = self._store or await self._opened()
        async with self._fetching:
            keeper = self._keepers.get(run_id)
            if keeper is None:
                keeper = Keeper(await store.get(run_id), store, self._changed, self._now)
                self._keepers[run_id] = keeper
            return keeper

    def _changed(self, before: Run, after: Run) -> None:
        if after.status != before.status:
            self._moved(after)
        self._bells.ring(after.id)

    def _begin(self, keeper: Keeper) -> None:
        keeper.drivers += 1
        self._spawn(self._drive(keeper))

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _undisturbed(self, work: Coroutine[Any, Any, T]) -> T:
        """What is asked of the store for somebody who may leave at any moment: a connection to a database whose user is
        cancelled is thrown away.
        """
        return await asyncio.shield(self._spawn(work))

    async def _drive(self, keeper: Keeper) -> None:
        try:
            await self._in_turn(keeper)
        except (StoreUnavailable, RunConflict, RunNotFound) as error:
            self._means.report(keeper.run.id, error)  # it is not ours any more
            self._keepers.pop(keeper.run.id, None)
        finally:
            keeper.drivers -= 1

    async def _in_turn(self, keeper: Keeper) -> None:
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


def _new_id(now: float) -> str:
    """Ids sort by the time they were made at."""
    return f"run_{round(now * 1000):012x}{secrets.token_hex(6)}"


def is_run_id(text: str) -> bool:
    """Whether a run may have this id, or may have had it."""
    return re.fullmatch("run_[0-9a-f]{24,}", text) is not None


def digest_of(submission: Submission) -> str:
    """Tells whether two submissions are the same."""
    return hashlib.sha256(submission.model_dump_json().encode()).hexdigest()


async def declared(submission: Submission, toolbox: Toolbox) -> Submission:
    """A submission with what those who execute its tools know of them: what is stored has to hold after a restart.

    Raises `InvalidRequest` or `ToolUnusable`.
    """
    tools = dict(submission.workflow.tools)
    for name, tool in tools.items():
        wanted = Declaration(name, tool.execute, tool.description, tool.parameters)
        spec = await toolbox.declare(wanted, f"workflow.tools.{name}")
        parameters = dict(spec.parameters) if isinstance(spec.parameters, Mapping) else {}
        tools[name] = tool.model_copy(update={"description": spec.description, "parameters": parameters})
    workflow = submission.workflow.model_copy(update={"tools": tools})
    return submission.model_copy(update={"workflow": workflow})
