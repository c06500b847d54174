"""Value types for the status of a managed server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.backends.llama_server.launch import LaunchSpec

State: TypeAlias = Literal["starting", "loading", "ready", "draining", "stopped", "asleep", "crash-loop", "failed"]
COMING: frozenset[State] = frozenset({"starting", "loading", "draining"})
"""Transitional states: requests wait."""


def describe_stopped(kind: str) -> str:
    """Return the error message for requests to a server that was stopped by a command."""
    return f"{kind} has been stopped; start it with `forge-proxy backend start`"


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The progress of loading. `last_line` is from the log; `read` (from disk) and `resident` (in memory) are bytes."""

    seconds: float
    last_line: str
    read: int
    resident: int

    def __str__(self) -> str:
        memory = f", {self.resident >> 20} MB in memory" if self.resident else ""
        return (
            f"loading for {self.seconds:.0f} s{memory}{f'; last log line: {self.last_line}' if self.last_line else ''}"
        )


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The status of a managed server. `since` is when the state began, in seconds since 1970; `pid` is the server's.

    `restarts` counts restarts after crashes. `last_error` is kept after a recovery.
    """

    state: State
    spec: LaunchSpec
    since: float
    pid: int | None = None
    restarts: int = 0
    last_error: str | None = None
    progress: LoadProgress | None = None
