"""Creates jobs at regular intervals. A time that was missed counts once; a job that still runs is not doubled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import floor

from forge_proxy.core.jobs.actions import NewJob
from forge_proxy.core.jobs.errors import JobNotFound, JobNotReadable
from forge_proxy.core.jobs.records import Schedule
from forge_proxy.jobs.background_tasks import BackgroundTasks
from forge_proxy.jobs.ids import new_job_id
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobStore, NewRow
from forge_proxy.jobs.retries import retry_until_store_returns
from forge_proxy.jobs.wake_timer import WakeTimer

_SHARED_CHECK_SECONDS = 60.0
"""How often schedules that other daemons have set are looked for."""


class JobSchedules:
    """The schedules of a daemon. `start` is called with the id of each job that was created.

    Each daemon of a shared store has all schedules; the store lets one of them create the job of a time.
    """

    def __init__(
        self,
        store: Callable[[], Awaitable[JobStore]],
        deps: PhaseDeps,
        start: Callable[[str], Awaitable[None]],
        tasks: BackgroundTasks,
        *,
        is_shared: bool = False,
    ) -> None:
        self._is_shared = is_shared
        self._store = store
        self._deps = deps
        self._start = start
        self._tasks = tasks
        self._timer = WakeTimer(self.check, deps.now)

    async def repeat(self, name: str, interval: float | None, kind: str) -> None:
        """Create a job of a kind every `interval` seconds, the first one after that time; None ends the schedule.

        Setting a schedule to the interval that it has changes nothing. Raises `StoreUnavailable`, and `JobNotReadable`
        for an unknown kind.
        """
        self._deps.kinds.find_handler(kind)
        store = await self._store()
        if interval is None:
            await store.delete_schedule(name)
            return
        stored = {schedule.name: schedule for schedule in await store.list_schedules()}.get(name)
        if stored is None or (stored.kind, stored.interval) != (kind, interval):
            stored = Schedule(name, kind, interval, self._deps.now() + interval, stored and stored.job_id)
            await store.put_schedule(stored)
        self._timer.set(stored.next_at)

    def check(self) -> None:
        """Create the jobs whose time has come, and set the timer for the next one."""
        self._tasks.spawn(self._fire_due())

    def close(self) -> None:
        """Stop the timer."""
        self._timer.close()

    async def _fire_due(self) -> None:
        async for attempt in retry_until_store_returns():
            with attempt:
                store, now = await self._store(), self._deps.now()
                for schedule in await store.list_schedules():
                    next_at = await self._fire(store, schedule, now) if schedule.next_at <= now else schedule.next_at
                    self._timer.set(next_at)
                if self._is_shared:
                    self._timer.set(now + _SHARED_CHECK_SECONDS)

    async def _fire(self, store: JobStore, schedule: Schedule, now: float) -> float:
        """Create the job of a schedule, and return the time of the next one."""
        passed = floor((now - schedule.next_at) / schedule.interval) + 1
        next_at = schedule.next_at + passed * schedule.interval
        row = None if await _is_running(store, schedule) else self._build_row(schedule, now)
        if await store.fire(schedule, next_at, row) and row is not None:
            await self._start(row.job.id)
        return next_at

    def _build_row(self, schedule: Schedule, now: float) -> NewRow | None:
        new = NewJob(new_job_id(schedule.kind, now), schedule.kind, schedule.name, "{}")
        try:
            return self._deps.kinds.build_row(new, now)
        except JobNotReadable as error:  # of another version
            self._deps.report(schedule.name, error)
            return None


async def _is_running(store: JobStore, schedule: Schedule) -> bool:
    if schedule.job_id is None:
        return False
    try:
        return not (await store.head(schedule.job_id)).is_finished
    except JobNotFound:
        return False
