"""Builds the backend and the engine from the settings, and stops them in reverse order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from forge_proxy.backends.capability_cache import CapabilityCache, state_folder
from forge_proxy.backends.catalog import catalog_of
from forge_proxy.backends.config import BackendConfig
from forge_proxy.backends.http import AioHttp, HttpClient
from forge_proxy.backends.llama_server.catalog import CatalogLlama
from forge_proxy.backends.llama_server.managed import ManagedLlama
from forge_proxy.backends.llama_server.manager import ServerManager
from forge_proxy.backends.ollama import Ollama
from forge_proxy.backends.ollama_catalog import OllamaCatalog, OllamaEntry
from forge_proxy.backends.ollama_window import OllamaWindow, OllamaWindows
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.backends.sampling import read_recommendations
from forge_proxy.backends.selection import SelectedBackend, select_backend
from forge_proxy.core.budget import WindowSizing
from forge_proxy.core.catalog import Catalog
from forge_proxy.core.dialect import Dialect
from forge_proxy.core.guardrails.self_check import check_guardrails
from forge_proxy.core.scheduling import ModelSchedule
from forge_proxy.daemon.catalog_server import CatalogServer, Fit
from forge_proxy.daemon.managed_server import ManagedServerControl
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.backend_switching import BackendSwitcher
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.engine.memory import MemoryBudget
from forge_proxy.engine.pacing import LoopTurns
from forge_proxy.engine.ports import Backend, Clock, Observer, Resizer, ThoroughReader
from forge_proxy.engine.process_pool import ProcessPool
from forge_proxy.engine.sampling import Sampling, SamplingOverride
from forge_proxy.engine.scheduler import Scheduler
from forge_proxy.hardware.machine import MachineHardware
from forge_proxy.settings import Settings

if TYPE_CHECKING:
    from forge_proxy.backends.anthropic import AnthropicMessages


@dataclass(frozen=True, slots=True)
class EngineAssembly:
    """A backend, the engine over it, and the reason for this backend. A managed backend still has to be loaded."""

    choice: SelectedBackend
    backend: Backend
    engine: Engine
    machine: MachineHardware
    admission: Admission
    switching: BackendSwitcher
    """Switches the backend's model while requests are served."""
    manager: ServerManager | None = None
    control: ManagedServerControl | None = None
    """Set for a managed server only, like `manager`."""

    async def load(self) -> None:
        """Load the model of a managed server; requests are queued meanwhile. Raises `CannotStart`."""
        control, first = self.control, self.choice.launch
        if isinstance(control, CatalogServer) and first is not None:
            await self.switching.switch(lambda: control.load(first.alias), drain_seconds=0)
        elif self.manager is not None:
            async with self.admission.paused():
                await self.manager.start()


@asynccontextmanager
async def assemble(
    settings: Settings, observe: Observer, memory: MemoryBudget | None = None
) -> AsyncGenerator[EngineAssembly]:
    """Select a backend, build the engine over it, and stop both at the end.

    Raises `BackendChoiceError` or `GuardrailsBroken`.
    """
    check_guardrails()
    config = settings.backend
    clock: Clock = MonotonicClock()
    async with AsyncExitStack() as closing:
        turns = LoopTurns(clock)
        http = AioHttp(connect_seconds=config.connect_seconds, silence_seconds=config.silence_seconds, turns=turns)
        closing.push_async_callback(http.close)
        choice = await select_backend(config, http, settings.models)
        manager = ServerManager(choice.launch, config.llama_server, http, clock, observe) if choice.launch else None
        if manager is not None:
            closing.push_async_callback(manager.close)
        ollamas = _ollamas(choice, settings, http, observe) if choice.kind == "ollama" else {}
        backend = _backend(choice, settings, http, manager, ollamas, closing)
        process_pool, machine = ProcessPool(), MachineHardware()
        closing.push_async_callback(process_pool.close)
        closing.push_async_callback(machine.close)
        thorough: ThoroughReader = process_pool
        # llama-server rejects an object as tool_choice: it falls back to auto and only writes a line to its own log.
        llama = choice.launch is not None or choice.kind == "llama-server"
        slots = 1 if llama and config.llama_cpp.slot_id is not None else config.slots
        schedule = ModelSchedule(config.llama_server.swap_after_seconds) if choice.specs else None
        admission = Admission(backend, clock, observe, slots=slots, limit=config.queue_limit, schedule=schedule)
        dialect = Dialect(config.reasoning, config.tools, choice_in_words=llama, llama_cpp=llama)
        if llama:
            dialect = replace(dialect, defaults=config.llama_cpp.fields, thinks=config.llama_cpp.thinks)
        switching = BackendSwitcher(admission, lambda: engine.models.forget())  # `engine` is assigned before any switch
        catalog = catalog_of(settings.models, config.model)
        control = _control(
            settings, choice, manager, catalog, admission, switching, lambda name, start: budgets.load(name, start)
        )
        resizer: Resizer | None = control
        sizing = WindowSizing("restart") if control else WindowSizing()
        if ollamas:
            sizing, resizer = WindowSizing("request", truncates=True), _windows(ollamas, switching, settings)
        own = {name: entry.budget for name, entry in settings.models.items() if entry.budget is not None}
        budgets = Budgets(backend, clock, observe, settings.budget, sizing, resizer, machine, own)
        sampling = Sampling(observe, read_recommendations(), settings.sampling, _own_sampling(settings))
        files = {name: str(spec.model) for name, spec in choice.specs.items()} or choice.gguf
        cards = CapabilityCache(state_folder(os.environ), choice.public_url or f"managed {files}")
        engine = Engine(
            backend, clock, observe, config.model, thorough, admission, dialect, cards, budgets, sampling, catalog,
            settings.compaction, memory, turns,
        )  # fmt: skip
        if isinstance(control, CatalogServer):
            swapping = asyncio.create_task(Scheduler(admission, switching, control.load, clock, observe).run())
            closing.push_async_callback(_end, swapping)
        yield EngineAssembly(choice, backend, engine, machine, admission, switching, manager, control)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _backend(
    choice: SelectedBackend,
    settings: Settings,
    http: HttpClient,
    manager: ServerManager | None,
    ollamas: dict[str, OllamaEntry],
    closing: AsyncExitStack,
) -> Backend:
    """Return the adapter of the selected backend."""
    if manager is not None:
        return CatalogLlama(manager, choice.specs) if choice.specs else ManagedLlama(manager)
    if choice.kind == "anthropic":
        messages = _messages_api(choice, settings.backend)
        closing.push_async_callback(messages.close)
        return messages
    if ollamas:
        return OllamaCatalog(ollamas) if settings.models else ollamas[""].ollama
    health = "/health" if choice.kind == "llama-server" else None
    config = settings.backend
    return OpenAICompatible(
        choice.url or "", http, api_key=_key(config), health_path=health, max_response=config.max_response
    )


def _control(
    settings: Settings,
    choice: SelectedBackend,
    manager: ServerManager | None,
    catalog: Catalog | None,
    admission: Admission,
    switching: BackendSwitcher,
    fit: Fit,
) -> ManagedServerControl | None:
    """Return the control of a managed server, or None if the server is not managed."""
    drain = settings.backend.llama_server.drain_seconds
    if manager is None:
        return None
    if catalog is None:
        return ManagedServerControl(manager, switching, drain)
    return CatalogServer(manager, switching, drain, admission, catalog, choice.specs, fit)


def _windows(ollamas: dict[str, OllamaEntry], switching: BackendSwitcher, settings: Settings) -> Resizer:
    """Return the resizer of the context windows of Ollama models."""
    drain = settings.backend.llama_server.drain_seconds
    windows = {name: OllamaWindow(one.ollama, switching, drain, one.model) for name, one in ollamas.items()}
    return OllamaWindows(windows) if settings.models else windows[""]


def _key(config: BackendConfig) -> str | None:
    return config.api_key.get_secret_value() if config.api_key else None


def _ollamas(
    choice: SelectedBackend, settings: Settings, http: HttpClient, observe: Observer
) -> dict[str, OllamaEntry]:
    """Return one adapter per model of the catalog; without a catalog, a single one under the name ""."""
    config = settings.backend

    def adapter(context: int | None) -> Ollama:
        options = config.ollama if context is None else config.ollama.model_copy(update={"num_ctx": context})
        key, max_response = _key(config), config.max_response
        return Ollama(choice.url or "", http, options, observe, api_key=key, max_response=max_response)

    listed = {
        name: OllamaEntry(entry.ollama or name, adapter(entry.context)) for name, entry in settings.models.items()
    }
    return listed or {"": OllamaEntry(None, adapter(None))}


def _own_sampling(settings: Settings) -> dict[str, SamplingOverride]:
    return {
        name: SamplingOverride(
            {str(key): value for key, value in entry.sampling.items()},
            entry.gguf.stem if entry.gguf is not None else entry.ollama,
        )
        for name, entry in settings.models.items()
    }


def _messages_api(choice: SelectedBackend, config: BackendConfig) -> AnthropicMessages:
    from forge_proxy.backends.anthropic import AnthropicMessages  # slow import, over a second

    return AnthropicMessages(
        choice.url or "",
        api_key=_key(config) or "",
        connect_seconds=config.connect_seconds,
        silence_seconds=config.silence_seconds,
        max_response=config.max_response,
    )
