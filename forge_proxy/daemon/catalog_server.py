"""A llama.cpp server of ours that serves one of several models at a time."""

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
    """`BackendControl` and `Resizer`. Whatever it does, the admission hears which model is served then."""

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
        """Serve this model, inside of an exchange. Raises `BackendFault`, with the one before served on if possible."""
        if self._is_stopped:
            kind = self._specs[model].program.kind
            raise BackendDown(kind, describe_stopped(kind))
        try:
            await self._fit(model, lambda tokens: self._ensure(model, tokens))
        finally:
            self._admission.serves(self._loaded())

    async def start(self) -> None:
        """See `api.admin.ports.BackendControl`."""
        self._begin_anew()
        await super().start()

    async def stop(self) -> None:
        """See `api.admin.ports.BackendControl`. No model is loaded then, whichever is asked for."""
        self._is_stopped = True
        await super().stop()

    async def restart(self) -> None:
        """See `api.admin.ports.BackendControl`."""
        self._begin_anew()
        await super().restart()

    async def use(self, model: str) -> None:
        """See `api.admin.ports.BackendControl`. Requests for others have it swapped again."""
        name = self._catalog.known(model)
        if name is None:
            raise UnknownModel(model, self._catalog.names)
        self._begin_anew()
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
        async def and_tell() -> None:
            try:
                await work()
            finally:
                self._admission.serves(self._loaded())

        await super()._exchange(and_tell)

    def _begin_anew(self) -> None:
        self._is_stopped = False
        self._admission.forgive()

    def _loaded(self) -> str | None:
        """The model that runs, or would if it were woken, recovered or started; None after a load that failed."""
        now = self._manager.status()
        return None if now.state == "failed" else now.spec.alias
