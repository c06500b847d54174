"""A managed llama.cpp server that serves one of several models at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.backends.llama_server.manager import ServerManager
from forge_proxy.backends.llama_server.status import describe_stopped
from forge_proxy.core.backend_errors import BackendDown
from forge_proxy.core.catalog import Catalog
from forge_proxy.core.errors import UnknownModel
from forge_proxy.daemon.managed_server import ManagedServerControl, SwitchableServer
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.backend_switching import BackendSwitcher
from forge_proxy.engine.budgets import Budgets


class SwitchableCatalog(SwitchableServer):
    """`Resizer` of the models of a catalog. Reports the served model to `Admission` after each change."""

    def __init__(
        self,
        manager: ServerManager,
        switching: BackendSwitcher,
        drain_seconds: float,
        admission: Admission,
        specs: Mapping[str, LaunchSpec],
    ) -> None:
        super().__init__(manager, switching, drain_seconds)
        self._admission = admission
        self.specs = specs

    def served(self) -> Sequence[str | None]:
        """See `engine.ports.Resizer`."""
        loaded = self._find_loaded()
        return () if loaded is None else (loaded,)

    async def resize(self, tokens: int | None, model: str | None = None) -> None:
        """See `engine.ports.Resizer`."""

        async def ensure() -> None:
            self._raise_if_stopped()
            if model is not None and model == self._find_loaded():
                await self.ensure(model, tokens)

        await self.switch(ensure)

    async def ensure(self, model: str, tokens: int | None) -> None:
        """Serve this model with a window of `tokens`; None means its default. Call it within a switch."""
        spec = self.specs[model]
        await self.manager.ensure(replace(spec, context=spec.context if tokens is None else tokens), drain_seconds=0)

    async def switch(self, change: Callable[[], Awaitable[object]]) -> None:
        """See `SwitchableServer`."""

        async def change_and_report() -> None:
            try:
                await change()
            finally:
                self.report_served()

        await super().switch(change_and_report)

    def report_served(self) -> None:
        """Report the served model to `Admission`."""
        self._admission.set_loaded(self._find_loaded())

    def _find_loaded(self) -> str | None:
        """Return the current model, including one that sleeps, recovers or is stopped; None after a failed load."""
        now = self.manager.status()
        return None if now.state == "failed" else now.spec.alias


class CatalogServer(ManagedServerControl):
    """`BackendControl` of a managed server that serves the models of a catalog in turn."""

    def __init__(self, server: SwitchableCatalog, admission: Admission, catalog: Catalog, budgets: Budgets) -> None:
        super().__init__(server)
        self._models = server
        self._admission = admission
        self._catalog = catalog
        self._budgets = budgets
        self._is_stopped = False

    async def load(self, model: str) -> None:
        """Serve this model; call it within a switch. On failure, keep serving the previous model if possible.

        Raises `BackendFault`.
        """
        if self._is_stopped:
            kind = self._models.specs[model].program.kind
            raise BackendDown(kind, describe_stopped(kind))
        try:
            await self._budgets.load(model, lambda tokens: self._models.ensure(model, tokens))
        finally:
            self._models.report_served()

    async def start(self) -> None:
        """See `api.admin.ports.BackendControl`."""
        self._reset()
        await super().start()

    async def stop(self) -> None:
        """See `api.admin.ports.BackendControl`. Until it is started again, no request loads a model."""
        self._is_stopped = True
        await super().stop()

    async def restart(self) -> None:
        """See `api.admin.ports.BackendControl`."""
        self._reset()
        await super().restart()

    async def use(self, model: str) -> None:
        """See `api.admin.ports.BackendControl`. Requests for other models swap it again."""
        name = self._catalog.resolve(model)
        if name is None:
            raise UnknownModel(model, self._catalog.names)
        self._reset()
        await self._models.switch(lambda: self.load(name))

    def _reset(self) -> None:
        self._is_stopped = False
        self._admission.reset_failures()
