"""Jobs of an earlier daemon are continued, even if the store becomes available later than the daemon."""

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
from forge_proxy.daemon import jobs as daemon_jobs
from forge_proxy.daemon.jobs import resume
from forge_proxy.jobs.kinds import JobKinds
from forge_proxy.jobs.local_scheduler import LocalScheduler
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobStore
from forge_proxy.jobs.service import Jobs
from forge_proxy.jobs.writers import JobWriters
from forge_proxy.settings import load
from tests.fakes.owned_store import OwnedJobRepository


async def test_a_store_that_becomes_available_later_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_jobs, "_RETRY_WAIT", wait_none())
    url, faults = f"sqlite+aiosqlite:///{tmp_path}/runs.db", ["starting up", "starting up", "no such role"]
    (tmp_path / "runs.db").touch()

    @asynccontextmanager
    async def opened() -> AsyncGenerator[JobStore]:
        if faults:
            raise StoreUnavailable(faults.pop(0))
        store = await OwnedJobRepository.open(url)
        yield store
        await store.close()

    deps, writers = PhaseDeps(JobKinds(), lambda: 1.0, lambda _, __: None), JobWriters(opened, lambda: 1.0)
    jobs = Jobs(writers, LocalScheduler(writers, deps, {}), deps)
    with capture_logs() as logged:
        async with asyncio.timeout(20):
            await resume(jobs, load(None, {"store": {"url": url}}), structlog.get_logger())
    await jobs.close()

    assert faults == []
    assert [line["error"].rpartition(": ")[2] for line in logged] == ["starting up", "no such role"]
