"""The daemon's one database, for runs and stored responses. It is opened when one of them first needs it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from forge_proxy.api.conversation_store import ConversationStore
from forge_proxy.api.response_storage import ResponseStorage
from forge_proxy.api.response_store import ResponseRetention, ResponseStore
from forge_proxy.settings import Settings

if TYPE_CHECKING:  # importing SQLAlchemy and Alembic takes most of a second
    from forge_proxy.store.database import Database


class SharedDatabase:
    """Opens the database at a URL once. A failed attempt is repeated by the next caller."""

    def __init__(self, url: str, *, is_shared: bool = False) -> None:
        self._url = url
        self._is_shared = is_shared
        self._opening: asyncio.Task[Database] | None = None

    async def get(self) -> Database:
        """Return the open database. Raises `StoreUnavailable`."""
        if self._opening is None or (self._opening.done() and not _has_succeeded(self._opening)):
            self._opening = asyncio.create_task(self._open())
        return await asyncio.shield(self._opening)  # several may wait for it, and some of them give up

    async def close(self) -> None:
        """Close the database if it is open."""
        if self._opening is not None:
            await asyncio.wait([self._opening])
            if _has_succeeded(self._opening):
                await self._opening.result().close()

    async def _open(self) -> Database:
        module = await asyncio.to_thread(import_module, "forge_proxy.store.database")
        return await module.open_database(self._url, is_shared=self._is_shared)


@asynccontextmanager
async def shared_database(url: str, *, is_shared: bool = False) -> AsyncGenerator[SharedDatabase]:
    """Close the database at the end. `is_shared`: whether other daemons may use it at the same time."""
    database = SharedDatabase(url, is_shared=is_shared)
    try:
        yield database
    finally:
        await database.close()


def build_response_storage(settings: Settings, database: SharedDatabase) -> ResponseStorage:
    """Return the stored responses of a daemon, by the settings in `store`."""

    async def open_store() -> ResponseStore:
        opened = await database.get()
        return import_module("forge_proxy.store.responses").ResponseRepository(opened)

    async def open_conversations() -> ConversationStore:
        opened = await database.get()
        return import_module("forge_proxy.store.conversations").ConversationRepository(opened)

    store = settings.store
    retention = ResponseRetention(store.response_days, is_default=store.responses == "always")
    if store.responses == "never":
        return ResponseStorage(None, time.time, retention)
    return ResponseStorage(open_store, time.time, retention, open_conversations)


def _has_succeeded(opening: asyncio.Task[Database]) -> bool:
    return opening.done() and not opening.cancelled() and opening.exception() is None
