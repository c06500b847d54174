"""A backend for a Python program in one call: started or reached, with its budget, a client, and a context manager."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Unpack

from forge_proxy.backends.config import Kind
from forge_proxy.backends.ollama import Ollama
from forge_proxy.core.budget import Budget
from forge_proxy.core.compaction import CompactStrategy, NoCompact
from forge_proxy.core.errors import BackendError, BackendFault, BudgetResolutionError
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.daemon.app import in_next_turn, tell_choice
from forge_proxy.daemon.container import EngineAssembly, assemble
from forge_proxy.daemon.managed_server import ManagedServerControl
from forge_proxy.daemon.options import BackendOptions, refuse_unheard, settings_of
from forge_proxy.settings import Settings
from forge_proxy.telemetry import logs
from forge_proxy.workflows.context import CompactEvent, ContextManager
from forge_proxy.workflows.sdk.engine_client import EngineClient


@dataclass(frozen=True, slots=True)
class ReadyBackend:
    """A backend whose model is loaded, and what a workflow needs of it."""

    client: EngineClient
    context: ContextManager
    """For one conversation at a time; others are made with `budget.tokens`."""
    budget: Budget
    server: ManagedServerControl | None
    """The model server, where it was started here: to be looked at, restarted, stopped."""
    kind: Kind
    url: str
    because: str
    """Why it is this backend."""


@asynccontextmanager
async def setup_backend(
    settings: Settings | None = None,
    *,
    request_options: JsonObject | None = None,
    strategy: CompactStrategy | None = None,
    compact_threshold: float | None = None,
    on_compact: Callable[[CompactEvent], None] | None = None,
    **options: Unpack[BackendOptions],
) -> AsyncGenerator[ReadyBackend]:
    """A backend with its model loaded, and its end at the end of the block.

    `options` go over `settings`; the environment is not read. `request_options` go with each request, as `temperature`
    does. The `strategy` shortens the conversation once it is over `compact_threshold` of the budget; left out, both are
    as `settings.compaction` has them. What is chosen and found goes to the standard logger `forge_proxy`.

    Raises `SettingsError` or `BackendChoiceError` for options, `CannotStart` or another `BackendFault` where there is
    no server, `BudgetResolutionError` where nothing says how much context there is, `UnsupportedModelError` where no
    sampling is recommended for the model.
    """
    chosen = settings_of(options, settings, BackendOptions)
    log = logs.inside_another_program()
    async with assemble(chosen, in_next_turn(logs.LogObserver(log))) as parts:
        refuse_unheard(options, parts.choice)
        tell_choice(parts.choice, chosen, log)
        model = chosen.backend.model
        await _load(parts, model)
        # What is wrong with that is raised now, and not by each request.
        parts.engine.sampling.values_for(parts.engine.models.served_as(model))
        budget, tokens = await _budget(parts, model)
        shortens = strategy or chosen.compaction.plans or NoCompact()
        threshold = chosen.compaction.threshold if compact_threshold is None else compact_threshold
        yield ReadyBackend(
            EngineClient(parts.engine, model, request_options),
            ContextManager(shortens, tokens, threshold, on_compact),
            budget,
            parts.control,
            parts.choice.kind,
            parts.backend.url,
            parts.choice.because,
        )


async def _load(parts: EngineAssembly, model: str | None) -> None:
    """Have the model loaded, with the window that the budget wants. Raises `BackendFault`."""
    await parts.load()
    await parts.engine.models.name_for(model)  # asks the server, so one that is not there is noticed
    await parts.engine.budgets.settle()
    if isinstance(parts.backend, Ollama) and model is not None:
        await parts.backend.load(model)  # once, with its window: which is known only then where Ollama chooses it
        await parts.engine.budgets.settle()


async def _budget(parts: EngineAssembly, model: str | None) -> tuple[Budget, int]:
    """The budget, and its tokens. Raises `BudgetResolutionError`."""
    budget = await parts.engine.budgets.of(model)
    if budget.tokens is not None:
        return budget, budget.tokens
    try:
        await parts.backend.context_window(model)
    except BackendFault as fault:
        if isinstance(fault, BackendError) and fault.status in (401, 403):  # then a budget would not help
            raise
        raise BudgetResolutionError(parts.backend.url, fault) from fault
    raise BudgetResolutionError(parts.backend.url)
