"""The mode `batch`: the requests of a call are batches of one line, which are child jobs of the task.

A request is prepared once: the batch and the state that names it are stored together. The task then waits for its child
job like for sub-tasks, takes no place in a queue, and reads the response from the store once the batch has ended. After
a restart it finds the same batch. The batch is deleted when the response is stored in the task.
"""

from __future__ import annotations

from dataclasses import replace

import orjson

from forge_proxy.core.jobs.actions import NextAction, StartChildren
from forge_proxy.core.jobs.limits import MAX_TREE
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.tasks.decisions import CALL
from forge_proxy.core.tasks.records import BatchedCall, CallTerms
from forge_proxy.jobs.ports import JobFilter
from forge_proxy.tasks.attempt_errors import AttemptError
from forge_proxy.tasks.model_replies import ModelReply, read_completion
from forge_proxy.tasks.phase_run import PhaseRun
from forge_proxy.tasks.ports import RequestBatches
from forge_proxy.tasks.structured_call import StructuredCall

BATCH_KIND = "batch"
"""The kind of the child jobs (`batches/batch_handler.py`)."""
_CHILDREN = 100
"""The maximum number of batches of a task that are listed at a time."""


class RequestSubmitted(Exception):  # no error: the request has no response yet
    """A request has become a batch; `action` waits for it."""

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

        Raises `RequestSubmitted` if there is no such batch yet, and `BatchedRequestFailed`.
        """
        if number > len(self._call.batches):
            raise RequestSubmitted(await self._submit(number, body))
        response = await batches_of(self._run).read(self._call.batches[number - 1])
        return self._run.deps.caller.read_reply(self._wanted, read_completion(response.body), response.seconds)

    async def _submit(self, number: int, body: JsonObject) -> NextAction:
        run, job = self._run, self._run.writer.job
        total = await (await run.deps.open_jobs()).count_tree(job.root) + 2  # the batch, and the job of its line
        if total > MAX_TREE:
            raise AttemptError(f"the task would have {total} jobs; {MAX_TREE} are possible", is_final=True)
        request_id = f"{job.id}/{job.created_at}/{self._call.round}/{self._call.part}/{number}"
        batch = await batches_of(run).prepare(request_id, orjson.dumps(body))
        event = run.event("submitted", batch=batch.id, request=number)
        run.stage(event, batched=replace(self._call, batches=(*self._call.batches, batch.id)))
        return StartChildren((batch,), CALL)


async def discard_batches(run: PhaseRun) -> None:
    """Delete the batches of a call that has ended: its response is stored in the task."""
    store = await run.deps.open_jobs()
    which = JobFilter(kind=BATCH_KIND, parent=run.writer.job.id)
    for head in await store.list(which, before=None, limit=_CHILDREN):
        await batches_of(run).discard(head.id)


def batches_of(run: PhaseRun) -> RequestBatches:
    """Return the batches of the daemon."""
    if run.deps.batches is None:
        raise AssertionError("a daemon without batches accepts no task with the mode batch")
    return run.deps.batches
