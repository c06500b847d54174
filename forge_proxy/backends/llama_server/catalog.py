"""The `Backend` over a managed llama.cpp server that serves one of several models at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from forge_proxy.backends.llama_server.instance import ServerInstance
from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.backends.llama_server.managed import ManagedLlama
from forge_proxy.backends.llama_server.manager import ServerManager
from forge_proxy.core.backend_errors import BackendFault, BackendNotReady
from forge_proxy.core.chat import ModelCard

_RETRY_SECONDS = 5


class CatalogLlama(ManagedLlama):
    """`Backend` adapter for several models. Keeps the last known cards of unloaded models; it does not load models."""

    def __init__(self, manager: ServerManager, specs: Mapping[str, LaunchSpec]) -> None:
        super().__init__(manager)
        self._specs = specs
        self._cards: dict[str, ModelCard] = {}

    async def models(self) -> Sequence[ModelCard]:
        """See `engine.ports.Backend`. Returns the whole catalog, without waiting for a model that is loading."""
        run = self._manager.current
        if run is not None:
            with suppress(BackendFault):  # it may be exiting: then its last known card is used
                run.models = await run.server.models()
        self._remember()
        return [self._card(name) for name in self._specs]

    async def context_window(self, model: str | None = None) -> int | None:
        """See `engine.ports.Backend`. Returns the last known or configured one of an unloaded model."""
        self._remember()
        name = model or self._manager.status().spec.alias
        run = self._manager.current
        if run is not None and run.spec.alias == name:
            return await run.server.context_window(name)
        return self._card(name).window

    def _refuse_other(self, run: ServerInstance, model: str | None) -> None:
        # A request that is retried after a switch: it ran for longer than the drain time.
        if model != run.spec.alias:
            raise BackendNotReady(self.url, f"{run.spec.alias} is served now, not {model}", _RETRY_SECONDS)

    def _remember(self) -> None:
        latest = self._manager.latest
        if latest is not None and latest.models:
            self._cards[latest.spec.alias] = replace(latest.models[0], id=latest.spec.alias)

    def _card(self, name: str) -> ModelCard:
        spec = self._specs.get(name)
        return self._cards.get(name) or ModelCard(name, spec.context if spec else None)
