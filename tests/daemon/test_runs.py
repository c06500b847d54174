"""Runs of an earlier daemon are resumed, even if the store becomes available later than the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs
from tenacity import wait_none

from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.daemon import runs as daemon_runs
from forge_proxy.daemon.runs import resume
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.clock import MonotonicClock
from forge_proxy.engine.config import EngineConfig
from forge_proxy.settings import load
from forge_proxy.tools.local import ClientExecutor, EchoExecutor
from forge_proxy.workflows.runs.execution import ExecutionDeps
from forge_proxy.workflows.runs.ports import RunStore
from forge_proxy.workflows.runs.service import Runs
from forge_proxy.workflows.sdk.client_backend import ClientBackend
from forge_proxy.workflows.tool_registry import ToolRegistry
from tests.fakes.owned_store import OwnedJobRepository
from tests.fakes.said_client import SaidClient


async def test_a_store_that_becomes_available_later_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_runs, "_RETRY_WAIT", wait_none())
    url, faults = f"sqlite+aiosqlite:///{tmp_path}/runs.db", ["starting up", "starting up", "no such role"]
    (tmp_path / "runs.db").touch()

    @asynccontextmanager
    async def opened() -> AsyncGenerator[RunStore]:
        if faults:
            raise StoreUnavailable(faults.pop(0))
        store = await OwnedJobRepository.open(url)
        yield store
        await store.close()

    engine = Engine(EngineConfig(ClientBackend(SaidClient([])), MonotonicClock(), lambda _: None))
    runs = Runs(
        opened,
        ExecutionDeps(engine, ToolRegistry(ClientExecutor(), EchoExecutor()), lambda _, __: None),
        1,
        lambda: 1.0,
    )
    with capture_logs() as logged:
        async with asyncio.timeout(20):
            await resume(runs, load(None, {"store": {"url": url}}), structlog.get_logger())
    await runs.close()

    assert faults == []
    assert [line["error"].rpartition(": ")[2] for line in logged] == ["starting up", "no such role"]
