"""The mode `batch`: the requests of a call are batches of one line, which are child jobs of the task.

A request is prepared once: the batch and the state that names it are stored together. The task then waits for its child
job like for sub-tasks, takes no place in a queue, and reads the response from the store once the batch has ended. After
a restart it finds the same batch. The batch is deleted when the response is stored in the task.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import orjson

from forge_proxy.core.errors import RequestCancelled
from forge_proxy.core.jobs.actions import NextAction, StartChildren, Wait
from forge_proxy.core.jobs.limits import MAX_TREE
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.tasks.decisions import CALL
from forge_proxy.core.tasks.records import BatchedCall, CallTerms
from forge_proxy.jobs.ports import JobFilter
from forge_proxy.jobs.retries import compute_retry_delay
from forge_proxy.tasks.attempt_errors import MODEL_ERRORS, AttemptError
from forge_proxy.tasks.model_replies import ModelReply, read_completion
from forge_proxy.tasks.phase_run import PhaseRun
from forge_proxy.tasks.ports import BatchedRequestFailed, RequestBatches
from forge_proxy.tasks.structured_call import StructuredCall

BATCH_KIND = "batch"
"""The kind of the child jobs (`batches/batch_handler.py`)."""
_CHILDREN = 100
"""The maximum number of batches of a task that are listed at a time."""


class RequestSubmitted(Exception):  # no error: the request has no response yet
    """A request has become a batch, or will soon; `action` waits for it."""

    def __init__(self, action: NextAction) -> None:
        super().__init__()
        self.action = action


class BatchedRequests:
    """The requests of the current call."""

    def __init__(self, run: PhaseRun, wanted: StructuredCall[object], terms: CallTerms) -> None:
        state = run.state
        self._run = run
        self._wanted = wanted
        self._call = state.current_batched or BatchedCall(state.progress.attempts, len(state.responses), terms, ())

    async def send(self, number: int, body: JsonObject) -> ModelReply:
        """Return the response in the batch of this request (`structured_call.SendRequest`).

        Raises `RequestSubmitted` if there is no such batch yet or it is repeated, and `BatchedRequestFailed`.
        """
        if number > len(self._call.batches):
            raise RequestSubmitted(await self._submit(number, body))
        try:
            response = await batches_of(self._run).read(self._call.batches[number - 1])
        except BatchedRequestFailed as failed:
            raise RequestSubmitted(self._repeat(failed)) from failed
        return self._run.deps.caller.read_reply(self._wanted, read_completion(response.body), response.seconds)

    async def _submit(self, number: int, body: JsonObject) -> NextAction:
        run, job = self._run, self._run.writer.job
        await discard_batches(run, kept=self._call.batches)
        total = await (await run.deps.open_jobs()).count_tree(job.root) + 2  # the batch, and the job of its line
        if total > MAX_TREE:
            raise AttemptError(f"the task would have {total} jobs; {MAX_TREE} are possible", is_final=True)
        request_id = f"{job.id}/{job.created_at}/{self._call.round}/{self._call.part}/{number}/{self._call.failed}"
        batch = await batches_of(run).prepare(request_id, orjson.dumps(body))
        event = run.event("submitted", batch=batch.id, request=number)
        run.stage(event, batched=replace(self._call, batches=(*self._call.batches, batch.id)))
        return StartChildren((batch,), CALL)

    def _repeat(self, failed: BatchedRequestFailed) -> NextAction:
        """Wait before another batch is submitted, as a request that fails is repeated in the mode `sync`.

        The batch itself has waited for a model server that was unavailable. Raises `failed` if the model is at fault,
        if a person has cancelled the batch, or after the last attempt.
        """
        run, call, error, failures = self._run, self._call, failed.error, self._call.failed + 1
        if isinstance(error, (*MODEL_ERRORS, RequestCancelled)) or failures >= CALL.max_attempts:
            raise failed
        seconds = compute_retry_delay(failures)
        event = run.event("waiting", error=type(error).__name__, seconds=seconds)
        run.stage(event, batched=replace(call, batches=call.batches[:-1], failed=failures))
        return Wait(run.deps.now() + seconds, CALL)


async def discard_batches(run: PhaseRun, kept: Collection[str] = ()) -> None:
    """Delete the batches of a call that has ended, whose response is stored in the task, apart from `kept`."""
    store = await run.deps.open_jobs()
    which = JobFilter(kind=BATCH_KIND, parent=run.writer.job.id)
    for head in await store.list(which, before=None, limit=_CHILDREN):
        if head.id not in kept:
            await batches_of(run).discard(head.id)


def batches_of(run: PhaseRun) -> RequestBatches:
    """Return the batches of the daemon."""
    if run.deps.batches is None:
        raise AssertionError("a daemon without batches accepts no task with the mode batch")
    return run.deps.batches
