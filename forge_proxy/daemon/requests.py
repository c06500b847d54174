"""The stored requests of a daemon: connects the writer and the admin API to the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from forge_proxy.core.quantization import find_quantization
from forge_proxy.core.requests.records import RequestRecord
from forge_proxy.core.requests.stored import RequestRetention
from forge_proxy.daemon.database import SharedDatabase
from forge_proxy.engine.memory import MEGABYTE
from forge_proxy.engine.models import Models
from forge_proxy.settings import Settings
from forge_proxy.telemetry.content_encoder import ContentEncoder
from forge_proxy.telemetry.fan_out import EventFanOut
from forge_proxy.telemetry.ledger_watch import LedgerWatch
from forge_proxy.telemetry.request_metrics import ModelLabels
from forge_proxy.telemetry.request_writer import RequestWriter

if TYPE_CHECKING:  # importing SQLAlchemy takes most of a second
    from forge_proxy.store.ledger import LedgerRepository
    from forge_proxy.store.requests import RequestRepository


class StoredRequests:
    """Opens the repositories when they are first needed. Implements `api.admin.services.RequestSource`."""

    def __init__(self, database: SharedDatabase, *, has_alerts: bool) -> None:
        self._database = database
        self.has_alerts = has_alerts

    async def requests(self) -> RequestRepository:
        """Return the stored requests. Raises `StoreUnavailable`."""
        opened = await self._database.get()
        return import_module("forge_proxy.store.requests").RequestRepository(opened)

    async def ledger(self) -> LedgerRepository:
        """Return the ledger. Raises `StoreUnavailable`."""
        opened = await self._database.get()
        return import_module("forge_proxy.store.ledger").LedgerRepository(opened)


@asynccontextmanager
async def store_requests(
    settings: Settings,
    database: SharedDatabase,
    models: Models,
    listeners: EventFanOut,
    log: FilteringBoundLogger,
    contents: ContentEncoder | None = None,
) -> AsyncGenerator[StoredRequests | None]:
    """Store the requests of a daemon, unless the settings say otherwise, and write the last ones at the end.

    `contents` has their texts, if they are stored.
    """
    store = settings.store
    if not store.requests:
        yield None
        return
    stored = StoredRequests(database, has_alerts=settings.ledger.alerts == "on")
    retention = RequestRetention(
        store.request_days, store.max_requests, store.ledger_days, store.content_days, store.max_content_mb * MEGABYTE
    )
    writer = RequestWriter(stored.requests, _ModelDescriptions(models).describe, retention, log, contents)
    running = asyncio.create_task(writer.run())
    beside = [asyncio.create_task(contents.run())] if contents is not None else []
    listeners.add(writer)
    if stored.has_alerts:
        watch = LedgerWatch(stored.ledger, listeners, log)
        listeners.add(watch)
        beside.append(asyncio.create_task(watch.run()))
    try:
        yield stored
    finally:
        await asyncio.sleep(0)  # events are observed in the next iteration of the event loop
        await writer.close(running)
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)


class _ModelDescriptions:
    """Under which model and quantization a request is counted."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._labels = ModelLabels(models.is_known)

    def describe(self, record: RequestRecord) -> tuple[str, str]:
        name = record.served or record.model or ""
        card = self._models.cached_card(name)
        quantization = find_quantization(card.id, card.details) if card else ""
        return self._labels.label(name), quantization
