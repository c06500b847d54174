"""Builds the scheduler of a daemon's jobs: in this process, or over Temporal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

import structlog

from forge_proxy.daemon.database import SharedDatabase
from forge_proxy.jobs.config import JobsConfig
from forge_proxy.jobs.local_scheduler import LocalScheduler
from forge_proxy.jobs.phases import PhaseDeps
from forge_proxy.jobs.ports import JobScheduler
from forge_proxy.jobs.writers import JobWriters

FEED_SECONDS = 1.0
"""How often event feeds look for events of other daemons."""


def build_scheduler(
    config: JobsConfig,
    writers: JobWriters,
    deps: PhaseDeps,
    queues: Mapping[str, Callable[[], int]],
    database: SharedDatabase,
) -> JobScheduler:
    """Return the scheduler that the settings name. With Temporal, phases of the queues in `serve_queues` run here."""
    if config.scheduler == "local":
        return LocalScheduler(writers, deps, queues)
    temporal = config.temporal
    served = {
        name: limit for name, limit in queues.items() if config.serve_queues is None or name in config.serve_queues
    }

    async def open_outbox() -> object:
        return import_module("forge_proxy.store.outbox").OutboxRepository(await database.get())

    log = structlog.get_logger()

    def report(reason: str) -> None:
        log.warning("temporal unavailable", address=temporal.address, error=reason, note="jobs wait for it")

    def report_connected() -> None:
        log.info("temporal connected", address=temporal.address, namespace=temporal.namespace, queues=sorted(served))

    place = import_module("forge_proxy.temporal.ports").TemporalOptions(temporal, served, report, report_connected)
    return import_module("forge_proxy.temporal.scheduler").TemporalScheduler(writers, deps, open_outbox, place)
