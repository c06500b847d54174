"""Types for attacks, their requirements and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tests.attack.target import Target
from tests.fakes.processes import Process, model_server

Group: TypeAlias = Literal["front door", "client APIs", "backend", "load", "faults", "tools", "secrets"]


@dataclass(frozen=True)
class Attack:
    """One attack. `run` returns if the daemon held and raises `AssertionError` if it did not."""

    name: str
    group: Group
    run: Callable[[Target], None]
    server: Callable[[], AbstractContextManager[Process]] = model_server
    """Starts the model server behind the daemon."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables of the daemon, in addition to those for its backend."""
    descriptors: int | None = None
    """Limit of open files for the daemon; None keeps the machine's."""
    max_growth_mb: float = 300.0
    """How far the daemon's resident memory may grow meanwhile, in MB (10^6 bytes)."""


@dataclass(frozen=True)
class Drill:
    """An attack that ends or stops processes, and so starts its own. Nothing is measured meanwhile."""

    name: str
    group: Group
    run: Callable[[], None]


@dataclass(frozen=True)
class Result:
    """The result of an attack. Durations are in seconds or milliseconds, memory in MB; None if not measured."""

    attack: Attack | Drill
    breach: str | None
    seconds: float
    cpu_seconds: float | None = None
    growth_mb: float | None = None
    loop_ms: float | None = None
    """Event loop lag: the longest CPU time in which the daemon's event loop served no timer."""
    lag_ms: float | None = None
    """The longest wait of the honest client for `GET /healthz`: the event loop's lag and the machine's noise."""
    chat_ms: float | None = None
    """The longest wait of the honest client for a small guarded chat completion."""

    @property
    def held(self) -> bool:
        """Whether the daemon held."""
        return self.breach is None
