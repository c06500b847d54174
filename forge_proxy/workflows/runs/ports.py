"""What stored runs need from outside, said by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.workflows.runs.records import RunEvent, RunHead, RunStatus, StoredRun
from forge_proxy.workflows.tools import Executor


@dataclass(frozen=True, slots=True)
class IdempotencyClaim:
    """What a caller said who may submit the same once more: their key, and a digest of what they submitted."""

    key: str
    digest: str


class RunStore(Protocol):
    """Keeps runs and their events. One daemon has it at a time. Every method raises `StoreUnavailable`."""

    async def create(self, run: StoredRun, events: Sequence[RunEvent], claim: IdempotencyClaim | None) -> StoredRun:
        """Store a new run; where the key of `claim` was used before, the run that it was used for.

        Raises `RunConflict` where that was submitted with something else.
        """
        ...

    async def get(self, run_id: str) -> StoredRun:
        """All that is stored of a run. Raises `RunNotFound`."""
        ...

    async def head(self, run_id: str) -> RunHead:
        """What is listed of it. Raises `RunNotFound`."""
        ...

    async def list(self, *, before: str | None, limit: int, status: RunStatus | None) -> Sequence[RunHead]:
        """Runs, newest first; with `before` only those that are older than that one."""
        ...

    async def unfinished(self) -> Sequence[RunHead]:
        """The runs of which something is still to come, oldest first."""
        ...

    async def save(self, run: StoredRun, since: int, events: Sequence[RunEvent]) -> None:
        """Store what a run has become, and the events that tell of it: all of it or nothing.

        `since` is the last event that is stored. The same may be said again where nobody knows whether it was stored.
        Raises `RunNotFound`, or `RunConflict` where somebody else has written.
        """
        ...

    async def events(self, run_id: str, *, after: int, limit: int) -> Sequence[RunEvent]:
        """A run's events after one, in their order."""
        ...

    async def delete(self, run_id: str) -> None:
        """Forget a run and its events. Raises `RunNotFound`."""
        ...

    async def close(self) -> None:
        """Let go of it; another daemon may have it then."""
        ...


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """A tool as it is declared. `execute` says what executes it; what is None is for that to fill in."""

    name: str
    execute: JsonObject
    description: str | None = None
    parameters: JsonObject | None = None


class ToolRegistry(Protocol):
    """Executes the tools of submitted workflows, which say themselves how (`execute` of a tool)."""

    async def declare(self, tool: ToolDeclaration, at: str) -> ToolSpec:
        """The tool as the model is told of it. `at` is the path of its declaration.

        Raises `InvalidRequest` for a way that is not there, or is not allowed, and `ToolUnusable`.
        """
        ...

    def executor(self, executes: Mapping[str, JsonObject], run_id: str) -> Executor:
        """What executes these tools, by their names. It may leave calls to somebody else."""
        ...
