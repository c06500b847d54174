"""Writes the output and the error file of a batch from the results of its lines."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from forge_proxy.batches.files import Files, FileUpload
from forge_proxy.batches.line_source import LineSource
from forge_proxy.batches.shard_handler import build_line_id, read_planned, read_results
from forge_proxy.core.batches.ordering import PlannedLine
from forge_proxy.core.batches.records import BatchState, LineTotals, ShardState, read_shard
from forge_proxy.core.batches.results import MissingReason, encode_missing, read_custom_id
from forge_proxy.core.files import StoredFile
from forge_proxy.core.jobs.limits import MAX_CHILDREN
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.jobs.ports import JobFilter, JobStore
from forge_proxy.jobs.writer import read_state

_PAGE = 100
"""Results that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class _Result:
    """A line, and where its result is. Without a digest it has none."""

    line: PlannedLine
    shard_id: str
    digest: str | None
    is_completed: bool


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files of a batch, and what is in them."""

    output_file_id: str | None
    error_file_id: str | None
    totals: LineTotals
    missing: int
    """Lines without a response."""


async def sum_totals(store: JobStore, batch_id: str) -> LineTotals:
    """Return the totals of all shards of a batch."""
    totals = LineTotals()
    for _, state in await _read_shards(store, batch_id):
        totals += state.totals
    return totals


async def read_only_result(store: JobStore, batch_id: str) -> JsonObject | None:
    """Return the result of the line of a batch that has only one; None if the line was not finished."""
    results, _ = await _find_results(store, batch_id)
    digest = results[0].digest if results else None
    return None if digest is None else orjson.loads((await store.read_documents([digest]))[digest])


async def write_files(
    store: JobStore, files: Files, input_file: StoredFile, batch_id: str, state: BatchState, reason: MissingReason
) -> WrittenFiles:
    """Write the results in the order of the input file. `reason` explains those that are missing.

    It may be repeated: it replaces the files that it has written before.
    """
    results, totals = await files.run(_find_results(store, batch_id))
    output = _ResultFile(files, input_file.owner, batch_id, "output", state.request.output_expires_after)
    error = _ResultFile(files, input_file.owner, batch_id, "error", state.request.output_expires_after)
    missing = 0
    for start in range(0, len(results), _PAGE):
        page = results[start : start + _PAGE]
        texts = await files.run(store.read_documents([result.digest for result in page if result.digest is not None]))
        source = LineSource(files, input_file)
        await source.prefetch(result.line for result in page if result.digest is None)
        for result in page:
            if result.digest is not None:
                await (output if result.is_completed else error).write(texts[result.digest])
                continue
            missing += 1
            custom_id = read_custom_id(await source.take(result.line))
            absent = encode_missing(build_line_id(result.shard_id, result.line.number), custom_id, reason)
            totals += absent.totals
            await error.write(absent.text)
    return WrittenFiles(await output.finish(), await error.finish(), totals, missing)


async def _find_results(store: JobStore, batch_id: str) -> tuple[list[_Result], LineTotals]:
    found: list[_Result] = []
    totals = LineTotals()
    for shard_id, state in await _read_shards(store, batch_id):
        done = {number: (digest, completed) for number, digest, completed in await read_results(store, shard_id)}
        totals += state.totals
        for line in await read_planned(store, state):
            digest, is_completed = done.get(line.number, (None, False))
            found.append(_Result(line, shard_id, digest, is_completed))
    return sorted(found, key=lambda result: result.line.number), totals


async def _read_shards(store: JobStore, batch_id: str) -> Sequence[tuple[str, ShardState]]:
    heads = await store.list(JobFilter(parent=batch_id), before=None, limit=MAX_CHILDREN)
    return [(head.id, read_shard(await read_state(store, await store.get(head.id)))) for head in heads]


class _ResultFile:
    """A file that is created with its first line."""

    def __init__(self, files: Files, owner: str, batch_id: str, name: str, expires_after: int | None) -> None:
        self._files = files
        self._owner = owner
        self._id = f"file-{_hash(batch_id, name)}"
        self._filename = f"{batch_id}_{name}.jsonl"
        self._expires_after = expires_after
        self._upload: FileUpload | None = None

    async def write(self, line: bytes) -> None:
        """Append a line."""
        if self._upload is None:
            self._upload = await self._files.create(self._owner, self._id, is_limited=False)
        await self._upload.write(line)

    async def finish(self) -> str | None:
        """Complete the file and return its id; None if it has no lines."""
        if self._upload is None:
            return None
        return (await self._upload.finish(self._filename, "batch_output", self._expires_after)).id


def _hash(*parts: str) -> str:
    return hashlib.blake2b(" ".join(parts).encode(), digest_size=16).hexdigest()
