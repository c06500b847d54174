"""Opens a model for an eval: the backend and engine of the settings, and the surfaces over them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from forge_proxy import daemon
from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.api.server import HttpServer, address, listen
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.events import Event
from forge_proxy.evals.ablation import Ablation, Surface
from forge_proxy.evals.proxy_harness import ProxyHarness
from forge_proxy.evals.runner_harness import RunnerHarness
from forge_proxy.evals.single_run import Harness
from forge_proxy.settings import Settings


@dataclass(frozen=True, slots=True)
class EvalSession:
    """A loaded model. `slots` and `window` are None if the model server does not report them."""

    kind: str
    model: str
    slots: int | None
    window: int | None
    reason: str
    """The reason for the window."""
    harnesses: Mapping[Surface, Harness]


@asynccontextmanager
async def open_session(
    settings: Settings, surfaces: Sequence[Surface], presets: Sequence[Ablation] = ()
) -> AsyncGenerator[EvalSession]:
    """Start the backend and load the model; both are stopped at the end. Raises `ForgeError`.

    Each preset with settings has an engine of its own, because one policy cannot serve requests of several presets.
    """
    async with AsyncExitStack() as closing:
        parts = await closing.enter_async_context(daemon.assemble(settings, _ignore))
        _stop_learning(parts.engine)
        await parts.load()
        await parts.engine.budgets.settle()
        model = await parts.engine.models.default_name()
        budget = await parts.engine.budgets.of(model)
        harnesses: dict[Surface, Harness] = {}
        if "runner" in surfaces:
            harnesses["runner"] = RunnerHarness(parts.engine, model, budget.tokens)
        if "proxy" in surfaces:
            urls = {
                preset.name: await closing.enter_async_context(_serve_engine(parts, preset))
                for preset in presets
                if preset.settings
            }
            harness = ProxyHarness(await closing.enter_async_context(_serve_engine(parts)), model, urls)
            closing.push_async_callback(harness.close)
            harnesses["proxy"] = harness
        slots = settings.backend.slots or await parts.backend.slots()
        yield EvalSession(parts.choice.kind, model, slots, budget.tokens, budget.reason, harnesses)


@asynccontextmanager
async def _serve_engine(parts: daemon.EngineAssembly, preset: Ablation | None = None) -> AsyncGenerator[str]:
    """Serve the HTTP API on a free local port; yields its base URL."""
    config = ServerConfig(host="127.0.0.1", port=0)
    engine = parts.engine
    if preset is not None:
        engine = engine.with_guardrails(preset.apply_settings(engine.policies.guardrails))
        _stop_learning(engine)
    listener = listen(config)
    server = HttpServer(create_app(engine, parts.backend, config), config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield address(*listener.getsockname()[:2])
    finally:
        server.should_exit = True
        await serving
        listener.close()


def _stop_learning(engine: Engine) -> None:
    """Make all runs independent of one another."""
    engine.client_history.is_enabled = engine.learned.is_enabled = False


def _ignore(_: Event) -> None:
    """Ignore engine events: the records contain the results."""
