"""The port to the store of conversations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from forge_proxy.core.stored_responses import StoredConversation, StoredItem


class ConversationStore(Protocol):
    """Stores conversations. `store/conversations.py` has one for SQLite and PostgreSQL.

    All methods raise `StoreUnavailable`, and `ConversationNotFound` for a conversation of another owner, an expired one
    and one that does not exist. `ResponseStore.conversation` reads the items.
    """

    async def create(self, conversation: StoredConversation) -> None:
        """Store a new conversation. Deletes what has expired."""
        ...

    async def get(self, conversation_id: str, owner: str, now: float) -> StoredConversation:
        """Return a conversation."""
        ...

    async def update(self, conversation_id: str, owner: str, now: float, metadata: str) -> StoredConversation:
        """Replace the metadata; return the conversation."""
        ...

    async def delete(self, conversation_id: str, owner: str, now: float) -> None:
        """Delete a conversation with the items that a client added. Its responses are kept."""
        ...

    async def add(
        self, conversation: StoredConversation, added_id: str, now: float, items: Sequence[StoredItem], limit: int
    ) -> None:
        """Add items, and keep the conversation until its `expires_at`. Raises `InvalidRequest` beyond `limit` bytes."""
        ...

    async def remove_item(self, conversation_id: str, owner: str, now: float, item_id: str) -> StoredConversation:
        """Delete an item; return the conversation. Raises `ItemNotFound`."""
        ...
