"""What may be ordered of the owner of a managed server, and what comes of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.backends.llama_server.instance import CannotStart
from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.core.errors import BackendDown

Verb: TypeAlias = Literal["ensure", "start", "stop", "restart", "wake"]
Done: TypeAlias = Literal["reused", "started", "switched", "stopped"]
"""What came of an order: the server ran already as it should, it was started, or exchanged for another, or stopped."""


class Superseded(BackendDown):
    """Another order came before this one was carried out, and undoes it."""


class SwitchFailed(CannotStart):
    """The new server could not be started. `restored` tells whether the one before runs again, or rests as before."""

    def __init__(self, spec: LaunchSpec, why: str, *, restored: bool) -> None:
        super().__init__(spec, why)
        self.restored = restored


@dataclass(eq=False)
class Command:
    """What shall be done. `done` is set when it was, or raises why not."""

    verb: Verb
    spec: LaunchSpec
    drain: float
    done: asyncio.Future[Done]
