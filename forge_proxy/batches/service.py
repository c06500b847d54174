"""The operations on batches that the API offers: create, get, list, cancel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from forge_proxy.batches.batch_handler import BatchHandler
from forge_proxy.batches.errors import BatchConflict, BatchNotFound, FileInUse, translate_job_errors
from forge_proxy.batches.outputs import sum_totals
from forge_proxy.batches.shard_handler import ShardDeps
from forge_proxy.core.batches.progress import BatchProgress
from forge_proxy.core.batches.records import BatchRequest, BatchState, LineTotals, read_batch, write_state
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.files import StoredFileNotFound
from forge_proxy.core.jobs.actions import NewJob
from forge_proxy.core.jobs.errors import JobConflict, JobNotFound
from forge_proxy.core.jobs.records import NewEvent, StoredJob
from forge_proxy.jobs.ids import new_job_id
from forge_proxy.jobs.ports import JobFilter
from forge_proxy.jobs.service import Jobs

_DAY = 24 * 3600


@dataclass(frozen=True, slots=True)
class BatchPage:
    """Some batches of a list, and whether more follow."""

    batches: Sequence[BatchProgress]
    has_more: bool


class Batches:
    """The batches among a daemon's jobs.

    Every method raises `StoreUnavailable`; those on one batch also raise `BatchNotFound`.
    """

    def __init__(
        self, jobs: Jobs, deps: ShardDeps, now: Callable[[], float], check_notify_url: Callable[[str], None]
    ) -> None:
        """`check_notify_url` raises `InvalidRequest` for a URL that may not be called."""
        self._jobs = jobs
        self._check_notify_url = check_notify_url
        self._deps = deps
        self._now = now

    @property
    def endpoints(self) -> Collection[str]:
        """The paths that a batch can have as its endpoint."""
        return self._deps.executor.endpoints

    async def create(self, owner: str, request: BatchRequest) -> BatchProgress:
        """Store a batch and start it. Raises `InvalidRequest` if its input file cannot be one."""
        if request.notify_url is not None:
            self._check_notify_url(request.notify_url)
        files, now = self._deps.files, self._now()
        try:
            file = await files.get(request.input_file_id, owner)
        except StoredFileNotFound as error:
            raise InvalidRequest("input_file_id", str(error)) from error
        if file.purpose != "batch":
            raise InvalidRequest("input_file_id", f"expected a file with purpose batch; it has {file.purpose}")
        state = BatchState(request, now)
        await files.keep(file.id, state.expires_at + _DAY)
        job_id, url = new_job_id("batch", now), request.notify_url
        new = NewJob(job_id, BatchHandler.kind, file.id, write_state(state), notify_url=url)
        job = await self._jobs.submit(new, owner=owner)
        return BatchProgress.from_job(job, state, LineTotals(), now)

    async def get(self, batch_id: str, owner: str) -> BatchProgress:
        """Return the current state of a batch."""
        with translate_job_errors(batch_id):
            return await self._progress(await self._find(batch_id, owner))

    async def list(self, owner: str, *, after: str | None, limit: int) -> BatchPage:
        """Return batches, newest first; with `after` only those older than that batch."""
        which = JobFilter(kind=BatchHandler.kind, owner=owner)
        heads = await self._jobs.list(which, before=after, limit=limit + 1)
        found: list[BatchProgress] = []
        for head in heads[:limit]:
            with suppress(JobNotFound):  # it was deleted meanwhile
                found.append(await self._progress(await self._jobs.get(head.id)))
        return BatchPage(found, len(heads) > limit)

    async def cancel(self, batch_id: str, owner: str) -> BatchProgress:
        """Cancel a batch. Lines in flight finish, and the results of finished lines are delivered.

        Raises `BatchConflict` if it has ended.
        """
        with translate_job_errors(batch_id):
            job = await self._find(batch_id, owner)
            if job.is_finished:
                raise BatchConflict(f"the batch {batch_id} is {job.status}: there is nothing to cancel")
            if not await self._mark_cancelling(batch_id):
                with suppress(JobConflict):  # it has ended meanwhile
                    await self._jobs.cancel(batch_id)
            return await self.get(batch_id, owner)

    async def check_unused(self, file_id: str) -> None:
        """Raise `FileInUse` if an unfinished batch reads the file."""
        store = await self._deps.open_jobs()
        for head in await store.list_unfinished():
            if head.kind == BatchHandler.kind and head.title == file_id:
                raise FileInUse(file_id, head.id)

    async def _mark_cancelling(self, batch_id: str) -> bool:
        """Cancel the shards; return False if there are none yet."""
        async with self._jobs.lock(batch_id) as writer:
            state = read_batch(writer.state)
            if state.in_progress_at is None or writer.job.is_finished:
                return writer.job.is_finished
            if state.cancelling_at is None:
                cancelling = replace(state, cancelling_at=self._now())
                await writer.write(NewEvent("cancel_requested", {}), state=write_state(cancelling))
        store = await self._deps.open_jobs()
        for shard in await store.list_unfinished(parent=batch_id):
            with suppress(JobConflict, JobNotFound):  # it has ended meanwhile
                await self._jobs.cancel(shard.id)
        return True

    async def _find(self, batch_id: str, owner: str) -> StoredJob:
        job = await self._jobs.get(batch_id)
        if job.kind != BatchHandler.kind or job.owner != owner:
            raise BatchNotFound(batch_id)
        return job

    async def _progress(self, job: StoredJob) -> BatchProgress:
        state = read_batch(await self._jobs.read_state(job))
        totals = state.totals
        if state.end is None and state.in_progress_at is not None:
            totals = await sum_totals(await self._deps.open_jobs(), job.id)
        return BatchProgress.from_job(job, state, totals, self._now())
