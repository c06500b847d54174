"""The parts of the daemon that the admin API shows and changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from forge_proxy.api.admin.events import EventSource
from forge_proxy.api.admin.ledger import LedgerReader
from forge_proxy.api.admin.ports import BackendControl, LiveConfiguration, NotManaged
from forge_proxy.api.admin.requests import RequestReader
from forge_proxy.api.metrics import MetricsSource
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.memory import MemoryBudget
from forge_proxy.engine.ports import Backend, Clock, HardwareSource
from forge_proxy.jobs.service import Jobs
from forge_proxy.tasks.config import TiersConfig
from forge_proxy.tasks.service import TaskService
from forge_proxy.workflows.runs.service import Runs


@dataclass(frozen=True, slots=True)
class BackendSelection:
    """The backend that is used and the reason for its choice. `unmanaged` is the reason why it cannot be controlled."""

    kind: str
    reason: str
    unmanaged: str = ""


class RequestSource(Protocol):
    """The stored requests. Both methods raise `StoreUnavailable`."""

    @property
    def has_alerts(self) -> bool:
        """Whether models that got worse are reported."""
        ...

    async def requests(self) -> RequestReader:
        """Return the stored requests."""
        ...

    async def ledger(self) -> LedgerReader:
        """Return the reliability ledger."""
        ...


@dataclass(frozen=True, slots=True)
class AdminServices:
    """The parts of the daemon. If `control` is None, the model server is not managed. The routes of any other part that
    is None do not exist.
    """

    engine: Engine
    backend: Backend
    about: BackendSelection
    configuration: LiveConfiguration
    hardware: HardwareSource
    clock: Clock
    memory: MemoryBudget
    control: BackendControl | None = None
    runs: Runs | None = None
    metrics: MetricsSource | None = None
    stored: RequestSource | None = None
    jobs: Jobs | None = None
    tasks: TaskService | None = None
    tiers: TiersConfig = field(default_factory=TiersConfig)
    events: EventSource | None = None

    @property
    def managed(self) -> BackendControl:
        """The control of a managed model server. Raises `NotManaged`."""
        if self.control is None:
            raise NotManaged(self.about.unmanaged)
        return self.control
