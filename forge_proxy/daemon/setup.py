"""Sets up a backend for a Python program in one call: starts or connects it, and returns client, budget and context
manager.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Unpack

from forge_proxy.backends.config import Kind
from forge_proxy.backends.ollama import Ollama
from forge_proxy.core.backend_errors import BackendError, BackendFault
from forge_proxy.core.budget import Budget
from forge_proxy.core.budget_errors import BudgetResolutionError
from forge_proxy.core.compaction import CompactStrategy, NoCompact
from forge_proxy.core.deprecation import renamed_attribute
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.daemon.app import log_backend, observe_in_next_iteration
from forge_proxy.daemon.container import EngineAssembly, assemble
from forge_proxy.daemon.managed_server import ManagedServerControl
from forge_proxy.daemon.options import BackendOptions, apply_options, refuse_unsupported
from forge_proxy.settings import Settings
from forge_proxy.telemetry import logs
from forge_proxy.workflows.context import CompactEvent, ContextManager
from forge_proxy.workflows.sdk.engine_client import EngineClient


@dataclass(frozen=True, slots=True)
class ReadyBackend:
    """A backend with a loaded model, for use by a workflow."""

    client: EngineClient
    context: ContextManager
    """For one conversation at a time; create others with `budget.tokens`."""
    budget: Budget
    server: ManagedServerControl | None
    """Control of the model server (status, restart, stop) if it is managed, else None."""
    kind: Kind
    url: str
    reason: str
    """Why this backend was selected."""

    because = renamed_attribute("because", "reason")


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
    """Set up a backend with its model loaded; it is stopped at the end of the block.

    `options` override `settings`; the environment is not read. `request_options`, such as `temperature`, are sent with
    each request. `strategy` compacts the conversation once it exceeds `compact_threshold` of the budget; both default
    to `settings.compaction`. The selected backend and its properties are logged to the standard logger `forge_proxy`.

    Raises `SettingsError` or `BackendChoiceError` for invalid options, `CannotStart` or another `BackendFault` if the
    server is unavailable, `BudgetResolutionError` if the context window is unknown, and `UnsupportedModelError` if no
    sampling parameters are recommended for the model.
    """
    resolved = apply_options(options, settings, BackendOptions)
    log = logs.build_standard_logger()
    async with assemble(resolved, observe_in_next_iteration(logs.LogObserver(log))) as parts:
        refuse_unsupported(options, parts.choice)
        log_backend(parts.choice, resolved, log)
        model = resolved.backend.model
        await _load(parts, model)
        # Raises now if no sampling parameters are known, instead of in each request.
        parts.engine.sampling.values_for(parts.engine.models.resolve_cached(model).served)
        budget, tokens = await _budget(parts, model)
        compaction = strategy or resolved.compaction.planner or NoCompact()
        threshold = resolved.compaction.threshold if compact_threshold is None else compact_threshold
        yield ReadyBackend(
            EngineClient(parts.engine, model, request_options),
            ContextManager(compaction, tokens, threshold, on_compact),
            budget,
            parts.control,
            parts.choice.kind,
            parts.backend.url,
            parts.choice.reason,
        )


async def _load(parts: EngineAssembly, model: str | None) -> None:
    """Load the model with the context window that the budget requires. Raises `BackendFault`."""
    await parts.load()
    await parts.engine.models.resolve(model)  # queries the server, so an unreachable one is detected
    await parts.engine.budgets.settle()
    if isinstance(parts.backend, Ollama) and model is not None:
        await parts.backend.load(model)  # if Ollama chooses the window, it is known only after loading
        await parts.engine.budgets.settle()


async def _budget(parts: EngineAssembly, model: str | None) -> tuple[Budget, int]:
    """Return the budget and its tokens. Raises `BudgetResolutionError`."""
    budget = await parts.engine.budgets.of(model)
    if budget.tokens is not None:
        return budget, budget.tokens
    try:
        await parts.backend.context_window(model)
    except BackendFault as fault:
        if isinstance(fault, BackendError) and fault.status in (401, 403):  # setting a budget would not help
            raise
        raise BudgetResolutionError(parts.backend.url, fault) from fault
    raise BudgetResolutionError(parts.backend.url)
