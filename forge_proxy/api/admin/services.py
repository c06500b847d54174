"""What the admin API shows and changes, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from forge_proxy.api.admin.ports import BackendControl, LiveConfiguration, NotManaged
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.memory import MemoryBudget
from forge_proxy.engine.ports import Backend, Clock, HardwareSource
from forge_proxy.workflows.runs.service import Runs


@dataclass(frozen=True, slots=True)
class BackendSelection:
    """Which backend was chosen, and why; `unmanaged` says why it cannot be controlled, where it cannot."""

    kind: str
    reason: str
    unmanaged: str = ""


@dataclass(frozen=True, slots=True)
class AdminServices:
    """The parts. Without a `control` the model server is not ours; without `runs` there are no routes for them."""

    engine: Engine
    backend: Backend
    about: BackendSelection
    configuration: LiveConfiguration
    hardware: HardwareSource
    clock: Clock
    memory: MemoryBudget
    control: BackendControl | None = None
    runs: Runs | None = None

    @property
    def managed(self) -> BackendControl:
        """The control of a model server that is ours. Raises `NotManaged`."""
        if self.control is None:
            raise NotManaged(self.about.unmanaged)
        return self.control
