"""The batched requests of tasks, with the files and the batches of the daemon."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress

from forge_proxy.api.restored_errors import restore_error
from forge_proxy.batches.batch_handler import BatchHandler
from forge_proxy.batches.files import Files
from forge_proxy.batches.outputs import read_only_result
from forge_proxy.core.batches.limits import HOUR
from forge_proxy.core.batches.records import BatchRequest, BatchState, read_batch, write_state
from forge_proxy.core.errors import ForgeError, InvalidRequest, RequestCancelled
from forge_proxy.core.files import StoredFileNotFound
from forge_proxy.core.jobs.actions import NewJob
from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.core.jobs.records import StoredJob
from forge_proxy.core.jsontypes import is_object
from forge_proxy.core.tasks.errors import BatchedRequestExpired
from forge_proxy.jobs.ids import new_job_id
from forge_proxy.jobs.ports import JobStore
from forge_proxy.jobs.writer import read_state
from forge_proxy.tasks.ports import BatchedRequestFailed, BatchedResponse

_ENDPOINT = "/v1/chat/completions"
_LINE = b'{"custom_id":"call","method":"POST","url":"%s","body":%s}\n'
_OWNER = ""
"""The owner of the files: jobs of tasks have none, and each client has another one."""
_DAY = 24 * HOUR


class TaskBatches:
    """`tasks.ports.RequestBatches`. `hours` is the completion window of each batch."""

    def __init__(
        self, files: Files, open_jobs: Callable[[], Awaitable[JobStore]], now: Callable[[], float], hours: int
    ) -> None:
        self._files = files
        self._open_jobs = open_jobs
        self._now = now
        self._hours = hours

    async def prepare(self, request_id: str, body: bytes) -> NewJob:
        """See `tasks.ports.RequestBatches`."""
        now, seconds = self._now(), self._hours * HOUR
        file_id = f"file-{hashlib.blake2b(request_id.encode(), digest_size=16).hexdigest()}"
        upload = await self._files.create(_OWNER, file_id, is_limited=False)
        await upload.write(_LINE % (_ENDPOINT.encode(), body))
        await upload.finish("call.jsonl", "batch", seconds + _DAY)
        request = BatchRequest(file_id, _ENDPOINT, f"{self._hours}h", seconds)
        return NewJob(new_job_id("batch", now), BatchHandler.kind, file_id, write_state(BatchState(request, now)))

    async def read(self, batch_id: str) -> BatchedResponse:
        """See `tasks.ports.RequestBatches`."""
        store = await self._open_jobs()
        job = await store.get(batch_id)
        state = read_batch(await read_state(store, job))
        result = await read_only_result(store, batch_id)
        if result is None:
            raise BatchedRequestFailed(_explain_missing(job, state))
        response = result["response"]
        if not is_object(response):  # the model server's response is not JSON
            raise BatchedRequestFailed(restore_error(502, result))
        status, body = response["status_code"], response["body"]
        if not isinstance(status, int) or status >= 400 or not is_object(body):
            raise BatchedRequestFailed(restore_error(status if isinstance(status, int) else 502, body))
        return BatchedResponse(body, max(0.0, job.updated_at - state.created_at))

    async def discard(self, batch_id: str) -> None:
        """See `tasks.ports.RequestBatches`."""
        store = await self._open_jobs()
        with suppress(JobNotFound):
            state = read_batch(await read_state(store, await store.get(batch_id)))
            for file_id in (state.request.input_file_id, state.output_file_id, state.error_file_id):
                if file_id is not None:
                    with suppress(StoredFileNotFound):
                        await self._files.delete(file_id, _OWNER)
            await store.delete(batch_id)


def _explain_missing(job: StoredJob, state: BatchState) -> ForgeError:
    """Return why the line of a batch that has ended was not finished."""
    if state.errors:
        return InvalidRequest(state.errors[0].param or "", state.errors[0].message)
    if job.status == "cancelled" or state.cancelling_at is not None:
        return RequestCancelled()
    if state.end == "expired":
        return BatchedRequestExpired(job.id, state.request.window_seconds)
    return ForgeError(f"the batch {job.id} has failed: an error inside forge-proxy; its log has the details")
