"""The kind of jobs that are shards: some lines of a batch, sent one after another."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import orjson

from forge_proxy.batches.config import BatchesConfig
from forge_proxy.batches.files import Files
from forge_proxy.batches.line_permits import LinePermits
from forge_proxy.batches.line_source import LineSource
from forge_proxy.batches.ports import LineExecutor, LineRequest, LineResponse
from forge_proxy.batches.prefix_gate import PrefixGate
from forge_proxy.core.batches.ordering import NO_GROUP, PlannedLine, read_lines
from forge_proxy.core.batches.records import ShardState, read_batch, read_shard, write_state
from forge_proxy.core.batches.results import LineResult, encode_response
from forge_proxy.core.jobs.actions import Finished, NextAction, RunPhase
from forge_proxy.core.jobs.records import Document, NewEvent, StoredJob
from forge_proxy.jobs.cancellation import Cancelled, run_cancellable
from forge_proxy.jobs.ports import JobStore
from forge_proxy.jobs.writer import JobWriter, read_state

LINE_EVENT = "line"
"""An event with the number of a finished line, the digest of its result, and whether it completed."""
_EVENTS_PAGE = 1000
_WAIT_SECONDS = (1, 2, 5, 10, 30)
"""Seconds before a line is sent again; the last value repeats."""


@dataclass(frozen=True, slots=True)
class ShardDeps:
    """The dependencies of the processing of shards. `now` returns the seconds since 1970."""

    files: Files
    open_jobs: Callable[[], Awaitable[JobStore]]
    executor: LineExecutor
    permits: LinePermits
    gate: PrefixGate
    config: BatchesConfig
    now: Callable[[], float]


class ShardHandler:
    """The kind of jobs that are shards: `jobs.ports.JobHandler`."""

    kind = "batch_shard"

    def __init__(self, deps: ShardDeps) -> None:
        self._deps = deps

    def first_action(self, job: StoredJob) -> RunPhase:
        """See `JobHandler`."""
        return RunPhase("lines", "lines", max_attempts=3)

    async def run_phase(self, writer: JobWriter, phase: RunPhase) -> NextAction:
        """Send the lines that have no result yet. See `JobHandler`."""
        state, files = read_shard(writer.state), self._deps.files
        lines = await files.run(self._find_lines(writer, state))
        if lines is None:
            return Finished("cancelled")
        source = LineSource(files, await files.get(state.input_file_id, writer.job.owner or ""))
        await source.prefetch(lines)
        await _ShardRun(writer, state, lines, source, self._deps).run()
        return Finished("cancelled" if writer.cancel.is_set() else "completed")

    async def _find_lines(self, writer: JobWriter, state: ShardState) -> list[PlannedLine] | None:
        """Return the lines without a result; None if the batch is being cancelled."""
        store = await self._deps.open_jobs()
        if writer.job.parent is not None:
            parent = await store.get(writer.job.parent)
            if read_batch(await read_state(store, parent)).cancelling_at is not None:
                return None
        done = {number for number, _, _ in await read_results(store, writer.job.id)}
        return [line for line in await read_planned(store, state) if line.number not in done]

    def on_cancel(self, writer: JobWriter) -> None:
        """See `JobHandler`. The results are stored already."""


async def read_planned(store: JobStore, state: ShardState) -> list[PlannedLine]:
    """Return the lines of a shard in the order of processing."""
    return read_lines((await store.read_documents([state.lines]))[state.lines])


async def read_results(store: JobStore, shard_id: str) -> list[tuple[int, str, bool]]:
    """Return the finished lines of a shard: number, digest of the result, whether it completed."""
    found: list[tuple[int, str, bool]] = []
    after = 0
    while events := await store.events(shard_id, after=after, limit=_EVENTS_PAGE):
        after = events[-1].id
        for event in events:
            if event.type == LINE_EVENT:
                data = orjson.loads(event.data)
                found.append((data["line"], data["document"], data["completed"]))
    return found


class _ShardRun:
    """The processing of one shard, until it is done, cancelled, or its window has ended."""

    def __init__(
        self, writer: JobWriter, state: ShardState, lines: Sequence[PlannedLine], source: LineSource, deps: ShardDeps
    ) -> None:
        self._writer = writer
        self._state = state
        self._pending = deque(lines)
        self._source = source
        self._deps = deps
        self._storing = asyncio.Lock()
        self._drained = asyncio.Event()
        """Set when no line is left for helpers."""

    async def run(self) -> None:
        """Process the lines. Raises `JobConflict`, `JobNotFound`, `StoreUnavailable`."""
        helpers = [self._help() for _ in range(min(self._deps.permits.limit, len(self._pending)) - 1)]
        await _run_together([self._work(), *helpers])

    async def _work(self) -> None:
        try:
            async with self._deps.permits.permit(is_helper=False):
                while (line := self._next()) is not None:
                    await self._process(line)
        finally:
            self._drained.set()

    async def _help(self) -> None:
        while not self._drained.is_set():
            permit = self._deps.permits.permit(is_helper=True)
            try:
                await run_cancellable(self._drained, permit.__aenter__())
            except Cancelled:
                return
            try:
                if (line := self._next()) is not None:
                    await self._process(line)
            finally:
                await permit.__aexit__(None, None, None)

    def _next(self) -> PlannedLine | None:
        if not self._pending or self._writer.cancel.is_set() or self._deps.now() >= self._state.expires_at:
            return None
        line = self._pending.popleft()
        if not self._pending:
            self._drained.set()
        return line

    async def _process(self, line: PlannedLine) -> None:
        parsed: dict[str, Any] = orjson.loads(await self._source.take(line))
        request_id = build_line_id(self._writer.job.id, line.number)
        async with self._prompt_alone(line) as on_prompt:
            request = LineRequest(
                self._state.endpoint, orjson.dumps(parsed["body"]), request_id, self._writer.job.owner or "", on_prompt
            )
            response = await self._send(request)
        if response is None:
            return
        result = encode_response(request_id, parsed["custom_id"], response.status, request_id, response.body)
        await self._deps.files.run(self._store(line, result))  # what was answered is stored before the daemon ends

    @asynccontextmanager
    async def _prompt_alone(self, line: PlannedLine) -> AsyncGenerator[Callable[[], None]]:
        if line.group == NO_GROUP:
            yield _do_nothing
            return
        on_prompt = await self._deps.gate.enter(self._writer.job.root, line.group)
        try:
            yield on_prompt
        finally:
            on_prompt()

    async def _send(self, request: LineRequest) -> LineResponse | None:
        """Return the response to a line; None if the batch is cancelled or its window ends first."""
        attempts, waits = 0, 0
        while (seconds := self._state.expires_at - self._deps.now()) > 0:
            limit = asyncio.timeout(seconds)
            try:
                async with limit:
                    response = await self._deps.executor.send(request)
            except TimeoutError:
                if limit.expired():
                    return None
                raise
            if response.failure is None or response.failure == "permanent":
                return response
            if response.failure == "transient":
                attempts += 1
                if attempts >= self._deps.config.max_attempts:
                    return response
            wait = _WAIT_SECONDS[min(waits, len(_WAIT_SECONDS) - 1)]
            waits += 1
            try:
                await run_cancellable(self._writer.cancel, asyncio.sleep(min(wait, seconds)))
            except Cancelled:
                return None
        return None

    async def _store(self, line: PlannedLine, result: LineResult) -> None:
        document = Document(result.text)
        data = {"line": line.number, "document": document.digest, "completed": result.is_completed}
        async with self._storing:
            state = replace(self._state, totals=self._state.totals + result.totals)
            event = NewEvent(LINE_EVENT, data)
            await self._writer.write(event, state=write_state(state), documents=[document], wait=True)
            self._state = state


async def _run_together(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all; if one raises, cancel the others and raise the same."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def build_line_id(shard_id: str, number: int) -> str:
    """Return an id that is the same whenever the line is sent, so that logs show what was sent again."""
    return f"batch_req_{hashlib.blake2b(f'{shard_id} {number}'.encode(), digest_size=16).hexdigest()}"


def _do_nothing() -> None:
    """Do nothing."""
