"""What can be known of a managed server, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.backends.llama_server.launch import LaunchSpec

State: TypeAlias = Literal["starting", "loading", "ready", "draining", "stopped", "asleep", "crash-loop", "failed"]
COMING: frozenset[State] = frozenset({"starting", "loading", "draining"})
"""States that end by themselves: a request waits."""


def describe_stopped(kind: str) -> str:
    """Why a server that was stopped on purpose answers no request, and what to do."""
    return f"{kind} has been stopped; start it with `forge-proxy backend start`"


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How a load gets on. `said` is the last line of its log; `read` and `resident` are bytes."""

    seconds: float
    said: str
    read: int
    resident: int

    def __str__(self) -> str:
        memory = f", {self.resident >> 20} MB in memory" if self.resident else ""
        return f"loading for {self.seconds:.0f} s{memory}{f'; it says: {self.said}' if self.said else ''}"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A managed server now. `since` is when this state began, in seconds of the epoch; `pid` is the server's own.

    `restarts` counts those after crashes. `last_error` stays when all is well again.
    """

    state: State
    spec: LaunchSpec
    since: float
    pid: int | None = None
    restarts: int = 0
    last_error: str | None = None
    progress: LoadProgress | None = None
