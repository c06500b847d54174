"""The daemon with one more kind of jobs, the random ones: `python -m tests.fakes.random_jobs_daemon serve`.

It submits and drives them itself, as a kind without routes, and logs `random jobs ended` once all have ended. Nothing
in `forge_proxy/jobs` knows the kind. FORGE_TEST_SEED is its seed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import structlog

from forge_proxy.cli import main
from forge_proxy.daemon import app as daemon_app
from forge_proxy.daemon import jobs as daemon_jobs
from forge_proxy.jobs import retries
from forge_proxy.jobs.kinds import JobKinds
from forge_proxy.jobs.ports import JobHandler
from forge_proxy.store.jobs import JobRepository
from tests.fakes.random_jobs import RandomKind, drive

KIND = RandomKind(int(os.environ["FORGE_TEST_SEED"]), time.time, seconds=0.02)
build_jobs = daemon_jobs.build_jobs


def add_kind(*handlers: JobHandler) -> JobKinds:
    """Return the kinds of a daemon, and the random one."""
    return JobKinds(*handlers, KIND)


@asynccontextmanager
async def build_driven_jobs(
    settings: Any, engine: Any, observe: Any, database: Any, *others: Any
) -> AsyncGenerator[Any]:
    """Build the jobs of a daemon, and drive the random ones."""
    async with build_jobs(settings, engine, observe, database, *others) as services:
        KIND.jobs = services.jobs

        async def run() -> None:
            async for attempt in retries.retry_until_store_returns():
                with attempt:
                    KIND.store = JobRepository(await database.get())
                    await drive(KIND)
            structlog.get_logger().info("random jobs ended")

        driving = asyncio.create_task(run())
        yield services
        driving.cancel()
        with suppress(asyncio.CancelledError):
            await driving


if __name__ == "__main__":
    retries._ATTEMPT_SECONDS = (0.01,)  # pyright: ignore[reportPrivateUsage]
    daemon_jobs.JobKinds = add_kind  # pyright: ignore[reportAttributeAccessIssue]
    daemon_app.build_jobs = build_driven_jobs  # pyright: ignore[reportAttributeAccessIssue]
    main()
