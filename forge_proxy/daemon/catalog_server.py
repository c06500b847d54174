"""A managed llama.cpp server that serves one of several models at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.backends.llama_server.manager import ServerManager
from forge_proxy.backends.llama_server.status import describe_stopped
from forge_proxy.core.catalog import Catalog
from forge_proxy.core.errors import BackendDown, UnknownModel
from forge_proxy.daemon.managed_server import ManagedServerControl
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.backend_switching import BackendSwitcher

Fit: TypeAlias = Callable[[str, Callable[[int | None], Awaitable[object]]], Awaitable[None]]
"""`Budgets.load`."""


class CatalogServer(ManagedServerControl):
    """`BackendControl` and `Resizer`. Reports the served model to `Admission` after each change."""

    def __init__(
        self,
        manager: ServerManager,
        switching: BackendSwitcher,
        drain_seconds: float,
        admission: Admission,
        catalog: Catalog,
        specs: Mapping[str, LaunchSpec],
        fit: Fit,
    ) -> None:
        super().__init__(manager, switching, drain_seconds)
        self._admission = admission
        self._catalog = catalog
        self._specs = specs
        self._fit = fit
        self._is_stopped = False

    async def load(self, model: str) -> None:
        """Serve this model; call it within a switch. On failure, keep serving the previous model if possible.

        Raises `BackendFault`.
        """
        if self._is_stopped:
            kind = self._specs[model].program.kind
            raise BackendDown(kind, describe_stopped(kind))
        try:
            await self._fit(model, lambda tokens: self._ensure(model, tokens))
        finally:
            self._admission.serves(self._loaded())

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
        await self._exchange(lambda: self.load(name))

    def served(self) -> Sequence[str | None]:
        """See `engine.ports.Resizer`."""
        loaded = self._loaded()
        return () if loaded is None else (loaded,)

    async def resize(self, tokens: int | None, model: str | None = None) -> None:
        """See `engine.ports.Resizer`."""

        async def ensure() -> None:
            self._refuse_where_stopped()
            if model is not None and model == self._loaded():
                await self._ensure(model, tokens)

        await self._exchange(ensure)

    async def _ensure(self, model: str, tokens: int | None) -> None:
        spec = self._specs[model]
        await self._manager.ensure(replace(spec, context=spec.context if tokens is None else tokens), drain_seconds=0)

    async def _exchange(self, work: Callable[[], Awaitable[object]]) -> None:
        async def work_and_report() -> None:
            try:
                await work()
            finally:
                self._admission.serves(self._loaded())

        await super()._exchange(work_and_report)

    def _reset(self) -> None:
        self._is_stopped = False
        self._admission.forgive()

    def _loaded(self) -> str | None:
        """Return the current model, including one that sleeps, recovers or is stopped; None after a failed load."""
        now = self._manager.status()
        return None if now.state == "failed" else now.spec.alias
