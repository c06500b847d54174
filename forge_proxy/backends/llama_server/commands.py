"""The commands of the supervisor of a managed server, their results and errors."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.backends.llama_server.instance import CannotStart
from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.core.backend_errors import BackendDown

Verb: TypeAlias = Literal["ensure", "start", "stop", "restart", "wake"]
Done: TypeAlias = Literal["reused", "started", "switched", "stopped"]
"""The result of a command: the server was running already, was started, replaced by another one, or stopped."""


class Superseded(BackendDown):
    """A later command superseded this one before it was executed."""


class SwitchFailed(CannotStart):
    """The new server could not be started. `restored` is whether the previous one is in its earlier state again."""

    def __init__(self, spec: LaunchSpec, why: str, *, restored: bool) -> None:
        super().__init__(spec, why)
        self.restored = restored


@dataclass(eq=False)
class Command:
    """A command. `drain` is the drain time in seconds; `done` is its result or exception."""

    verb: Verb
    spec: LaunchSpec
    drain: float
    done: asyncio.Future[Done]
