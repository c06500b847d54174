"""Switches of a managed server's model through the admin API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from forge_proxy.backends.llama_server.launch import LaunchSpec, ServerProgram
from forge_proxy.backends.llama_server.manager import ServerManager
from forge_proxy.backends.llama_server.status import ServerStatus
from forge_proxy.core.catalog import Catalog
from forge_proxy.core.chat import ModelCall, ModelCard
from forge_proxy.core.health import Health
from forge_proxy.core.stream import Chunk
from forge_proxy.daemon.catalog_server import CatalogServer, SwitchableCatalog
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.backend_switching import BackendSwitcher
from forge_proxy.engine.budgets import Budgets
from tests.fakes.scripted import StillClock

PROGRAM = ServerProgram("llama-server", ("/llama-server",))
SPECS = {name: LaunchSpec(PROGRAM, Path(f"/{name}.gguf"), name) for name in ("small", "big")}


class Manager:
    """A manager whose server waits while it loads a model until `proceed` is set; its window is then 8,192 tokens.

    It is also the `Backend` of that server.
    """

    url = "http://managed"

    def __init__(self) -> None:
        self.spec = SPECS["small"]
        self.window = 2048
        self.loading = asyncio.Event()
        self.proceed = asyncio.Event()

    def status(self) -> ServerStatus:
        return ServerStatus("ready", self.spec, 0.0)

    async def ensure(self, spec: LaunchSpec, drain_seconds: float) -> None:
        self.loading.set()
        await self.proceed.wait()
        self.spec, self.window = replace(spec, context=None), 8192

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        return
        yield

    async def models(self) -> Sequence[ModelCard]:
        return []

    async def slots(self) -> int | None:
        return None

    async def context_window(self, model: str | None = None) -> int | None:
        return self.window

    async def count_tokens(self, call: ModelCall) -> int | None:
        return None

    async def health(self) -> Health:
        return Health("ok")


async def test_the_window_of_a_model_is_recorded_if_the_client_disconnects_while_it_loads() -> None:
    manager = Manager()
    admission = Admission(manager, StillClock(), [].append)
    switching = BackendSwitcher(admission, lambda: None)
    server = SwitchableCatalog(cast("ServerManager", manager), switching, 0, admission, SPECS)
    budgets = Budgets(manager, StillClock(), [].append)
    control = CatalogServer(server, admission, Catalog(tuple(SPECS), {}), budgets)
    before = await budgets.of("big")

    request = asyncio.create_task(control.use("big"))
    async with asyncio.timeout(20):
        await manager.loading.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        manager.proceed.set()
        await server.switch(lambda: asyncio.sleep(0))  # waits for the switch in progress

    assert (before.tokens, (await budgets.of("big")).tokens) == (2048, 8192)
