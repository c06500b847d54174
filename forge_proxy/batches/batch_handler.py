"""The kind of jobs that are batches: checks the input file, starts the shards, and collects their results."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from forge_proxy.batches.outputs import write_files
from forge_proxy.batches.shard_handler import ShardDeps, ShardHandler
from forge_proxy.core.batches.lines import BatchFileReader, LineFault, LineRules
from forge_proxy.core.batches.ordering import plan_lines, split_into_shards, write_lines
from forge_proxy.core.batches.records import BatchEnd, BatchState, ShardState, read_batch, write_state
from forge_proxy.core.batches.results import MissingReason
from forge_proxy.core.files import StoredFileNotFound
from forge_proxy.core.jobs.actions import Finished, NewJob, NextAction, RunPhase, StartChildren
from forge_proxy.core.jobs.records import Document, NewEvent, StoredJob
from forge_proxy.jobs.writer import JobWriter

_QUEUE = "batches"
_VALIDATE = RunPhase("validate", _QUEUE, max_attempts=3)
_FINISH = RunPhase("finish", _QUEUE, max_attempts=3)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The result of the validation of an input file."""

    faults: Sequence[LineFault]
    total: int = 0
    model: str | None = None
    shards: Sequence[tuple[int, bytes]] = ()
    """The number of lines of each shard, and the serialized lines."""


class BatchHandler:
    """The kind of jobs that are batches: `jobs.ports.JobHandler`. `max_body` is in bytes."""

    kind = "batch"

    def __init__(self, deps: ShardDeps, max_body: int) -> None:
        self._deps = deps
        self._max_body = max_body

    def first_action(self, job: StoredJob) -> RunPhase:
        """See `JobHandler`."""
        return _VALIDATE

    async def run_phase(self, writer: JobWriter, phase: RunPhase) -> NextAction:
        """See `JobHandler`."""
        state = read_batch(writer.state)
        if phase.phase == _VALIDATE.phase:
            return await self._validate(writer, state)
        return await self._finish(writer, state)

    def on_cancel(self, writer: JobWriter) -> None:
        """See `JobHandler`. Only a batch that has no shards is cancelled like other jobs."""
        self._deps.gate.forget(writer.job.id)

    async def _validate(self, writer: JobWriter, state: BatchState) -> NextAction:
        plan = await self._plan(writer.job.owner or "", state)
        now = self._deps.now()
        if plan.faults:
            failed = replace(state, errors=tuple(plan.faults), ended_at=now, end="failed")
            writer.stage(NewEvent("status", {"status": "failed"}), state=write_state(failed))
            return Finished("failed")
        documents = [Document(text) for _, text in plan.shards]
        children: list[NewJob] = []
        for number, ((count, _), document) in enumerate(zip(plan.shards, documents, strict=True)):
            request = state.request
            shard = ShardState(document.digest, count, request.input_file_id, request.endpoint, state.expires_at)
            title = f"{number + 1} of {len(documents)}"
            child_id = f"{writer.job.id}.{number:02}"
            children.append(NewJob(child_id, ShardHandler.kind, title, write_state(shard), plan.model))
        begun = replace(state, total=plan.total, model=plan.model, in_progress_at=now)
        writer.stage(state=write_state(begun), documents=documents)
        return StartChildren(tuple(children), _FINISH)

    async def _plan(self, owner: str, state: BatchState) -> _Plan:
        try:
            file = await self._deps.files.get(state.request.input_file_id, owner)
        except StoredFileNotFound as error:
            return _Plan([LineFault("file_not_found", str(error), param="input_file_id")])
        reader = BatchFileReader(LineRules(state.request.endpoint, self._max_body))
        async for piece in self._deps.files.read(file):
            await asyncio.to_thread(reader.feed, piece)
        reader.close()
        if reader.faults:
            return _Plan(reader.faults)
        return await asyncio.to_thread(self._divide, reader)

    def _divide(self, reader: BatchFileReader) -> _Plan:
        planned = plan_lines(reader.lines, by_prefix=self._deps.config.order_by_prefix)
        shards = [(len(shard), write_lines(shard)) for shard in split_into_shards(planned)]
        return _Plan((), len(planned), reader.model, shards)

    async def _finish(self, writer: JobWriter, state: BatchState) -> NextAction:
        deps, began = self._deps, self._deps.now()
        deps.gate.forget(writer.job.id)
        reason: MissingReason = "internal_error"
        if state.cancelling_at is not None:
            reason = "batch_cancelled"
        elif began >= state.expires_at:
            reason = "batch_expired"
        file = await deps.files.get(state.request.input_file_id, writer.job.owner or "")
        written = await write_files(await deps.open_jobs(), deps.files, file, writer.job.id, state, reason)
        end: BatchEnd = "completed"
        if state.cancelling_at is not None:
            end = "cancelled"
        elif written.missing and reason == "batch_expired":
            end = "expired"
        ended = replace(
            state,
            finalizing_at=began,
            ended_at=deps.now(),
            end=end,
            totals=written.totals,
            output_file_id=written.output_file_id,
            error_file_id=written.error_file_id,
        )
        status = "cancelled" if end == "cancelled" else "completed"
        writer.stage(NewEvent("status", {"status": status}), state=write_state(ended))
        return Finished(status)
