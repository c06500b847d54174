"""Repository of conversations. Items that clients add to one are stored like those of a response without a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.stored_responses import ConversationNotFound, ItemNotFound, StoredConversation, StoredItem
from forge_proxy.store.database import Database
from forge_proxy.store.tables import CONVERSATIONS, ITEMS, RESPONSES

ADDED = "items_"
"""Beginning of the ids of rows in `responses` that only hold items which a client added."""
_COLUMNS = (
    CONVERSATIONS.c.id, CONVERSATIONS.c.owner, CONVERSATIONS.c.created_at, CONVERSATIONS.c.expires_at,
    CONVERSATIONS.c.metadata,
)  # fmt: skip


class ConversationRepository:
    """`api.conversation_store.ConversationStore` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, conversation: StoredConversation) -> None:
        """See `ConversationStore`."""
        async with self._database.write() as connection:
            await keep_conversation(connection, conversation)

    async def get(self, conversation_id: str, owner: str, now: float) -> StoredConversation:
        """See `ConversationStore`."""
        async with self._database.read() as connection:
            return await _find(connection, conversation_id, owner, now)

    async def update(self, conversation_id: str, owner: str, now: float, metadata: str) -> StoredConversation:
        """See `ConversationStore`."""
        async with self._database.write() as connection:
            await _find(connection, conversation_id, owner, now)
            where = _is(conversation_id, owner)
            await connection.execute(update(CONVERSATIONS).where(*where).values(metadata=metadata))
            return await _find(connection, conversation_id, owner, now)

    async def delete(self, conversation_id: str, owner: str, now: float) -> None:
        """See `ConversationStore`."""
        own = _responses_of(conversation_id, owner)
        async with self._database.write() as connection:
            await _find(connection, conversation_id, owner, now)
            await connection.execute(delete(CONVERSATIONS).where(*_is(conversation_id, owner)))
            await connection.execute(delete(RESPONSES).where(*own, RESPONSES.c.id.startswith(ADDED)))
            await connection.execute(update(RESPONSES).where(*own).values(conversation_id=None))

    async def add(
        self, conversation: StoredConversation, added_id: str, now: float, items: Sequence[StoredItem], limit: int
    ) -> None:
        """See `ConversationStore`."""
        own = _responses_of(conversation.id, conversation.owner)
        size = sum(len(item.data) for item in items)
        row = {
            "id": f"{ADDED}{added_id}", "owner": conversation.owner, "created_at": now, "document": "", "size": size,
            "expires_at": conversation.expires_at, "conversation_id": conversation.id,
        }  # fmt: skip
        rows = [
            {"response_id": row["id"], "position": position, "id": item.id, "kind": item.kind, "data": item.data}
            for position, item in enumerate(items)
        ]
        async with self._database.write() as connection:
            await _find(connection, conversation.id, conversation.owner, now)
            stored = (await connection.execute(select(func.sum(RESPONSES.c.size)).where(*own))).scalar() or 0
            if stored + size > limit:
                raise InvalidRequest("items", f"the conversation would have {stored + size} bytes; at most {limit}")
            await connection.execute(insert(RESPONSES).values(**row))
            await connection.execute(insert(ITEMS), rows)
            await keep_conversation(connection, conversation)

    async def remove_item(self, conversation_id: str, owner: str, now: float, item_id: str) -> StoredConversation:
        """See `ConversationStore`."""
        chosen = (ITEMS.c.id == item_id, *_responses_of(conversation_id, owner))
        joined = ITEMS.join(RESPONSES, RESPONSES.c.id == ITEMS.c.response_id)
        query: Any = (
            select(ITEMS.c.response_id, func.length(ITEMS.c.data).label("size")).select_from(joined).where(*chosen)
        )
        async with self._database.write() as connection:
            found = await _find(connection, conversation_id, owner, now)
            rows: Sequence[Any] = (await connection.execute(query)).all() if item_id.isprintable() else []
            if not rows:
                raise ItemNotFound(item_id)
            for row in rows:
                of_row = RESPONSES.c.id == row.response_id
                await connection.execute(update(RESPONSES).where(of_row).values(size=RESPONSES.c.size - row.size))
                where = (ITEMS.c.response_id == row.response_id, ITEMS.c.id == item_id)
                await connection.execute(delete(ITEMS).where(*where))
            return found


async def keep_conversation(connection: AsyncConnection, conversation: StoredConversation) -> None:
    """Create a conversation, or keep it and its items as long as this one. Deletes what has expired."""
    where = _is(conversation.id, conversation.owner)
    await connection.execute(delete(CONVERSATIONS).where(CONVERSATIONS.c.expires_at <= conversation.created_at))
    kept = await connection.execute(update(CONVERSATIONS).where(*where).values(expires_at=conversation.expires_at))
    if kept.rowcount:
        own = _responses_of(conversation.id, conversation.owner)
        await connection.execute(update(RESPONSES).where(*own).values(expires_at=conversation.expires_at))
        return
    row = {
        "id": conversation.id, "owner": conversation.owner, "created_at": conversation.created_at,
        "expires_at": conversation.expires_at, "metadata": conversation.metadata,
    }  # fmt: skip
    await connection.execute(insert(CONVERSATIONS).values(**row))


def _is(conversation_id: str, owner: str) -> tuple[ColumnElement[bool], ...]:
    return CONVERSATIONS.c.id == conversation_id, CONVERSATIONS.c.owner == owner


def _responses_of(conversation_id: str, owner: str) -> tuple[ColumnElement[bool], ...]:
    return RESPONSES.c.conversation_id == conversation_id, RESPONSES.c.owner == owner


async def _find(connection: AsyncConnection, conversation_id: str, owner: str, now: float) -> StoredConversation:
    if not conversation_id.isprintable():  # PostgreSQL rejects NUL with an error of its own
        raise ConversationNotFound(conversation_id)
    query: Any = select(*_COLUMNS).where(*_is(conversation_id, owner), CONVERSATIONS.c.expires_at > now)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise ConversationNotFound(conversation_id)
    return StoredConversation(*row)
