"""The port to the store of responses, and what is stored in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from forge_proxy.core.stored_responses import Charge, StoredItem, StoredResponse, charge_nothing


class ResponseStore(Protocol):
    """Stores responses. `store/responses.py` has one for SQLite and PostgreSQL.

    All methods raise `StoreUnavailable`. Responses of other owners and expired ones are as if they did not exist.
    """

    async def save(self, response: StoredResponse, items: Sequence[StoredItem]) -> None:
        """Store a response, and keep those that it continues as long. Deletes what has expired."""
        ...

    async def get(self, response_id: str, owner: str, now: float) -> StoredResponse:
        """Return a response. Raises `ResponseNotFound`."""
        ...

    async def delete(self, response_id: str, owner: str, now: float) -> None:
        """Delete a response with its items. Raises `ResponseNotFound`."""
        ...

    async def read_chain(
        self, response_id: str, owner: str, now: float, limit: int, charge: Charge = charge_nothing
    ) -> Sequence[StoredItem]:
        """Return the items of a response and of all that it continues, oldest first. `charge` may raise.

        Raises `ResponseNotFound` if one is missing, or `InvalidRequest` if they have more than `limit` bytes.
        """
        ...

    async def read_conversation(
        self, conversation_id: str, owner: str, now: float, limit: int, charge: Charge = charge_nothing
    ) -> Sequence[StoredItem]:
        """Return the items of a conversation, oldest first; none if it has none. Raises `InvalidRequest`, too."""
        ...

    async def read_input(self, response_id: str, owner: str, now: float) -> Sequence[StoredItem]:
        """Return a response's own input items. Raises `ResponseNotFound`."""
        ...

    async def read_items(
        self, ids: Sequence[str], owner: str, now: float, limit: int, charge: Charge = charge_nothing
    ) -> Mapping[str, StoredItem]:
        """Return those of these items that are stored. Raises `InvalidRequest` if they have more than `limit` bytes."""
        ...


@dataclass(frozen=True, slots=True)
class ResponseRetention:
    """Which responses are stored, and for how many days."""

    days: int = 30
    is_default: bool = False
    """Whether responses are stored unless the request has `store: false`, as OpenAI's are."""
