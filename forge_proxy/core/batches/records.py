"""The stored states of a batch and of its shards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError

from forge_proxy.core.batches.lines import LineFault
from forge_proxy.core.jobs.errors import JobNotReadable

BatchEnd: TypeAlias = Literal["completed", "failed", "expired", "cancelled"]
_S = TypeVar("_S", "BatchState", "ShardState")


@dataclass(frozen=True, slots=True)
class LineTotals:
    """What has been done of a batch or a shard."""

    completed: int = 0
    failed: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: LineTotals) -> LineTotals:
        return LineTotals(
            self.completed + other.completed,
            self.failed + other.failed,
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )

    @property
    def done(self) -> int:
        """Lines with a response or an error."""
        return self.completed + self.failed


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """What a client has submitted."""

    input_file_id: str
    endpoint: str
    completion_window: str
    """As submitted, such as `24h`."""
    window_seconds: int
    metadata: Mapping[str, str] | None = None
    output_expires_after: int | None = None
    """Seconds after which the output files are deleted; None for the days of the configuration."""
    notify_url: str | None = None


@dataclass(frozen=True, slots=True)
class BatchState:
    """The state of a batch. Times are in seconds since 1970."""

    request: BatchRequest
    created_at: float
    version: Literal[1] = 1
    total: int = 0
    model: str | None = None
    """The model of all its lines, as they name it."""
    errors: tuple[LineFault, ...] = ()
    in_progress_at: float | None = None
    cancelling_at: float | None = None
    finalizing_at: float | None = None
    ended_at: float | None = None
    end: BatchEnd | None = None
    totals: LineTotals = field(default_factory=LineTotals)
    """Those of the whole batch, once it has ended."""
    output_file_id: str | None = None
    error_file_id: str | None = None

    @property
    def expires_at(self) -> float:
        """When its window ends."""
        return self.created_at + self.request.window_seconds


@dataclass(frozen=True, slots=True)
class ShardState:
    """The state of a shard. `lines` is the digest of the document with its lines."""

    lines: str
    count: int
    input_file_id: str
    endpoint: str
    expires_at: float
    version: Literal[1] = 1
    totals: LineTotals = field(default_factory=LineTotals)


@cache
def _adapter(kind: type[_S]) -> TypeAdapter[_S]:
    """Build the adapter on first use: most daemons start without a batch."""
    return TypeAdapter(kind)


def write_state(state: BatchState | ShardState) -> str:
    """Serialize a state."""
    if isinstance(state, BatchState):
        return _adapter(BatchState).dump_json(state).decode()
    return _adapter(ShardState).dump_json(state).decode()


def read_batch(text: str) -> BatchState:
    """Parse the state of a batch. Raises `JobNotReadable`."""
    return _read(BatchState, text)


def read_shard(text: str) -> ShardState:
    """Parse the state of a shard. Raises `JobNotReadable`."""
    return _read(ShardState, text)


def _read(kind: type[_S], text: str) -> _S:
    try:
        return _adapter(kind).validate_json(text)
    except ValidationError as error:
        raise JobNotReadable(
            "this batch was stored by another version of forge-proxy and cannot be resumed by this version"
        ) from error
