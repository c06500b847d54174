"""Builds the backend and the engine from the settings, and stops them in reverse order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.backends.capability_cache import CapabilityCache, state_folder
from forge_proxy.backends.catalog import catalog_of
from forge_proxy.backends.chat_templates.server import ServerTemplates, TemplateServer
from forge_proxy.backends.config import BackendConfig
from forge_proxy.backends.llama_server.manager import ServerManager
from forge_proxy.backends.ollama_catalog import OllamaEntry
from forge_proxy.backends.ollama_window import OllamaWindow, OllamaWindows
from forge_proxy.backends.sampling import read_recommendations
from forge_proxy.backends.selection import SelectedBackend, select_backend
from forge_proxy.core.background import BackgroundPolicy
from forge_proxy.core.budget import BudgetPolicy, WindowSizing
from forge_proxy.core.catalog import Catalog
from forge_proxy.core.dialect import Dialect
from forge_proxy.core.guardrails.self_check import check_guardrails
from forge_proxy.core.scheduling import ModelSchedule
from forge_proxy.daemon.adapters import build_backend, build_ollamas
from forge_proxy.daemon.catalog_server import CatalogServer, SwitchableCatalog
from forge_proxy.daemon.managed_server import ManagedServerControl, SwitchableServer
from forge_proxy.daemon.tiers import build_tier_models
from forge_proxy.engine.active_requests import ActiveRequests
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.backend_switching import BackendSwitcher
from forge_proxy.engine.background_hours import BackgroundHours
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.memory import MemoryBudget
from forge_proxy.engine.models import Models
from forge_proxy.engine.pacing import LoopTurns
from forge_proxy.engine.ports import Backend, Clock, ContentObserver, Observer, RequestTracer, Resizer
from forge_proxy.engine.process_pool import ProcessPool
from forge_proxy.engine.sampling import Sampling, SamplingOverride
from forge_proxy.engine.scheduler import Scheduler
from forge_proxy.hardware.machine import MachineHardware
from forge_proxy.settings import Settings


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
            async with self.admission.pause():
                await self.manager.start()


@asynccontextmanager
async def assemble(
    settings: Settings,
    observe: Observer,
    memory: MemoryBudget | None = None,
    observe_content: ContentObserver | None = None,
    active: ActiveRequests | None = None,
    tracer: RequestTracer | None = None,
) -> AsyncGenerator[EngineAssembly]:
    """Select a backend, build the engine over it, and stop both at the end.

    `observe_content`, if set, receives the texts of requests. `active` lists the requests under way,
    `tracer` has the traces of requests if they are exported.
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
        ollamas = build_ollamas(choice, settings, http, observe)
        backend = build_backend(choice, settings, http, manager, ollamas, closing)
        process_pool, machine = ProcessPool(), MachineHardware()
        closing.push_async_callback(process_pool.close)
        closing.push_async_callback(machine.close)
        catalog = catalog_of(settings.models, config.model)
        models = Models(backend, clock, config.model, catalog, build_tier_models(settings.tiers))
        admission = _build_admission(choice, settings, backend, clock, observe)
        switching = BackendSwitcher(admission, models.forget)
        server = _switchable_server(choice, config, manager, switching, admission)
        sizing, resizer = _window_control(settings, server, ollamas, switching)
        budgets = Budgets(backend, clock, observe, settings.budget, sizing, resizer, machine, _own_budgets(settings))
        control = _build_control(server, admission, catalog, budgets)
        if isinstance(control, CatalogServer):
            swapping = asyncio.create_task(Scheduler(admission, switching, control.load, clock, observe).run())
            closing.push_async_callback(_cancel, swapping)
        engine = Engine(
            replace(
                _configure_engine(choice, settings, EngineConfig(backend, clock, observe), process_pool),
                models=models,
                admission=admission,
                budgets=budgets,
                memory=memory,
                observe_content=observe_content,
                tracer=tracer,
                active=active or ActiveRequests(),
                turns=turns,
            )
        )
        closing.push_async_callback(engine.forms.close)
        yield EngineAssembly(choice, backend, engine, machine, admission, switching, manager, control)


def _configure_engine(
    choice: SelectedBackend, settings: Settings, config: EngineConfig, process_pool: ProcessPool
) -> EngineConfig:
    """Return the configuration with what the settings and the selected backend decide."""
    backend = config.backend if isinstance(config.backend, TemplateServer) else None
    return replace(
        config,
        sampling=_build_sampling(settings, config.observe),
        guardrails=settings.guardrails,
        compaction=settings.compaction,
        dialect=_dialect(choice, settings.backend),
        reader=process_pool,
        templates=ServerTemplates(backend, process_pool, settings.backend.chat_template),
        cards=_open_capability_cache(choice),
    )


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _is_llama(choice: SelectedBackend) -> bool:
    return choice.launch is not None or choice.kind == "llama-server"


def _build_admission(
    choice: SelectedBackend, settings: Settings, backend: Backend, clock: Clock, observe: Observer
) -> Admission:
    config, jobs = settings.backend, settings.jobs
    slots = 1 if _is_llama(choice) and config.llama_cpp.slot_id is not None else config.slots
    schedule = ModelSchedule(config.llama_server.swap_after_seconds) if choice.specs else None
    background = BackgroundPolicy(jobs.reserved_slots, jobs.idle_seconds)
    return Admission(
        backend, clock, observe, slots=slots, limit=config.queue_limit, schedule=schedule,
        background=background, hours=BackgroundHours(jobs.daily_hours),
    )  # fmt: skip


def _dialect(choice: SelectedBackend, config: BackendConfig) -> Dialect:
    """Return the form of the requests to the selected backend."""
    if not _is_llama(choice):
        return Dialect(config.reasoning, config.tools)
    return Dialect(
        config.reasoning,
        config.tools,
        # llama-server rejects an object as tool_choice: it falls back to auto and only writes a line to its own log.
        choice_in_words=True,
        llama_cpp=True,
        defaults=config.llama_cpp.fields,
        thinks=config.llama_cpp.thinks,
    )


def _switchable_server(
    choice: SelectedBackend,
    config: BackendConfig,
    manager: ServerManager | None,
    switching: BackendSwitcher,
    admission: Admission,
) -> SwitchableServer | None:
    """Return the managed server, or None if the server is not managed."""
    drain = config.llama_server.drain_seconds
    if manager is None:
        return None
    if choice.specs:
        return SwitchableCatalog(manager, switching, drain, admission, choice.specs)
    return SwitchableServer(manager, switching, drain)


def _build_control(
    server: SwitchableServer | None, admission: Admission, catalog: Catalog | None, budgets: Budgets
) -> ManagedServerControl | None:
    """Return the control of a managed server, or None if the server is not managed."""
    if isinstance(server, SwitchableCatalog) and catalog is not None:
        return CatalogServer(server, admission, catalog, budgets)
    return ManagedServerControl(server) if server is not None else None


def _window_control(
    settings: Settings,
    server: SwitchableServer | None,
    ollamas: Mapping[str, OllamaEntry],
    switching: BackendSwitcher,
) -> tuple[WindowSizing, Resizer | None]:
    """Return how the context window of the backend is changed, and what changes it if it can be changed."""
    if server is not None:
        return WindowSizing("restart"), server
    if not ollamas:
        return WindowSizing(), None
    drain = settings.backend.llama_server.drain_seconds
    windows = {name: OllamaWindow(one.ollama, switching, drain, one.model) for name, one in ollamas.items()}
    return WindowSizing("request", truncates=True), OllamaWindows(windows) if settings.models else windows[""]


def _own_budgets(settings: Settings) -> dict[str, BudgetPolicy]:
    """Return the budgets of the models that have their own."""
    return {name: entry.budget for name, entry in settings.models.items() if entry.budget is not None}


def _open_capability_cache(choice: SelectedBackend) -> CapabilityCache:
    """Return the cards of the selected server. A managed one is identified by its model files: its port changes."""
    files = {name: str(spec.model) for name, spec in choice.specs.items()} or choice.gguf
    return CapabilityCache(state_folder(), choice.public_url or f"managed {files}")


def _build_sampling(settings: Settings, observe: Observer) -> Sampling:
    return Sampling(observe, read_recommendations(), settings.sampling, _sampling_overrides(settings))


def _sampling_overrides(settings: Settings) -> dict[str, SamplingOverride]:
    return {
        name: SamplingOverride(
            {str(key): value for key, value in entry.sampling.items()},
            entry.gguf.stem if entry.gguf is not None else entry.ollama,
        )
        for name, entry in settings.models.items()
    }
