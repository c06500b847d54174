"""Repository of stored responses and their items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, delete, func, insert, literal, select, update
from sqlalchemy.sql.selectable import CTE

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.stored_responses import (
    Charge,
    ResponseNotFound,
    StoredConversation,
    StoredItem,
    StoredResponse,
    charge_nothing,
)
from forge_proxy.store.conversations import ADDED, keep_conversation
from forge_proxy.store.database import Database
from forge_proxy.store.tables import ITEMS, RESPONSES

_MAX_TURNS = 5000
"""Maximum responses of one conversation."""
_ITEM = (ITEMS.c.id, ITEMS.c.kind, ITEMS.c.data)
_RESPONSE = (
    RESPONSES.c.id, RESPONSES.c.owner, RESPONSES.c.created_at, RESPONSES.c.expires_at, RESPONSES.c.document,
    RESPONSES.c.previous_id, RESPONSES.c.conversation_id,
)  # fmt: skip


class ResponseRepository:
    """`api.response_store.ResponseStore` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, response: StoredResponse, items: Sequence[StoredItem]) -> None:
        """See `ResponseStore`."""
        size = len(response.document) + sum(len(item.data) for item in items)
        row = {
            "id": response.id,
            "owner": response.owner,
            "created_at": response.created_at,
            "expires_at": response.expires_at,
            "previous_id": response.previous_id,
            "conversation_id": response.conversation_id,
            "size": size,
            "document": response.document,
        }
        rows = [
            {"response_id": response.id, "position": position, "id": item.id, "kind": item.kind, "data": item.data}
            for position, item in enumerate(items)
        ]
        async with self._database.write() as connection:
            await connection.execute(delete(RESPONSES).where(RESPONSES.c.expires_at <= response.created_at))
            await connection.execute(insert(RESPONSES).values(**row))
            if rows:
                await connection.execute(insert(ITEMS), rows)
            if response.conversation_id is not None:
                times = (response.created_at, response.expires_at)
                conversation = StoredConversation(response.conversation_id, response.owner, *times)
                await keep_conversation(connection, conversation)
            for earlier in _select_continued(response):
                await connection.execute(
                    update(RESPONSES).where(RESPONSES.c.id.in_(earlier)).values(expires_at=response.expires_at)
                )

    async def get(self, response_id: str, owner: str, now: float) -> StoredResponse:
        """See `ResponseStore`."""
        _check_id(response_id)
        query = select(*_RESPONSE).where(RESPONSES.c.id == response_id, *_filter_readable(owner, now))
        async with self._database.read() as connection:
            row = (await connection.execute(query)).one_or_none()
        if row is None:
            raise ResponseNotFound(response_id)
        return StoredResponse(*row)

    async def delete(self, response_id: str, owner: str, now: float) -> None:
        """See `ResponseStore`."""
        _check_id(response_id)
        query = delete(RESPONSES).where(RESPONSES.c.id == response_id, *_filter_readable(owner, now))
        async with self._database.write() as connection:
            result = await connection.execute(query)
        if result.rowcount == 0:
            raise ResponseNotFound(response_id)

    async def read_chain(
        self, response_id: str, owner: str, now: float, limit: int, charge: Charge = charge_nothing
    ) -> Sequence[StoredItem]:
        """See `ResponseStore`."""
        _check_id(response_id)
        chain = _chain(response_id, owner, now)
        links = select(chain.c.previous_id, chain.c.size).order_by(chain.c.depth)
        items = select(*_ITEM).join(chain, chain.c.id == ITEMS.c.response_id)
        async with self._database.read() as connection:
            found = (await connection.execute(links)).all()
            if not found:
                raise ResponseNotFound(response_id)
            if (missing := found[-1].previous_id) is not None:
                raise ResponseNotFound(missing)
            size = sum(row.size for row in found)
            _check_size("previous_response_id", size, limit)
            charge(size)
            rows = await connection.execute(items.order_by(chain.c.depth.desc(), ITEMS.c.position))
            return [StoredItem(*row) for row in rows]

    async def read_conversation(
        self, conversation_id: str, owner: str, now: float, limit: int, charge: Charge = charge_nothing
    ) -> Sequence[StoredItem]:
        """See `ResponseStore`."""
        if not conversation_id.isprintable():
            return []
        chosen = (RESPONSES.c.conversation_id == conversation_id, *_filter_readable(owner, now))
        items = select(*_ITEM).join(RESPONSES, RESPONSES.c.id == ITEMS.c.response_id).where(*chosen)
        async with self._database.read() as connection:
            sizes = await connection.execute(select(RESPONSES.c.size).where(*chosen))
            size = sum(sizes.scalars())
            _check_size("conversation", size, limit)
            charge(size)
            rows = await connection.execute(items.order_by(RESPONSES.c.created_at, RESPONSES.c.id, ITEMS.c.position))
            return [StoredItem(*row) for row in rows]

    async def read_input(self, response_id: str, owner: str, now: float) -> Sequence[StoredItem]:
        """See `ResponseStore`."""
        await self.get(response_id, owner, now)
        query = select(*_ITEM).where(ITEMS.c.response_id == response_id, ITEMS.c.kind == "input")
        async with self._database.read() as connection:
            return [StoredItem(*row) for row in await connection.execute(query.order_by(ITEMS.c.position))]

    async def read_items(
        self, ids: Sequence[str], owner: str, now: float, limit: int, charge: Charge = charge_nothing
    ) -> Mapping[str, StoredItem]:
        """See `ResponseStore`."""
        wanted = sorted({one for one in ids if one.isprintable()})
        found: dict[str, StoredItem] = {}
        total = 0
        async with self._database.read() as connection:
            for at in range(0, len(wanted), _MAX_TURNS):
                chosen = (ITEMS.c.id.in_(wanted[at : at + _MAX_TURNS]), *_filter_readable(owner, now))
                joined = ITEMS.join(RESPONSES, RESPONSES.c.id == ITEMS.c.response_id)
                lengths = select(func.sum(func.length(ITEMS.c.data))).select_from(joined).where(*chosen)
                size: int = (await connection.execute(lengths)).scalar() or 0
                total += size
                _check_size("input", total, limit)
                charge(size)
                query = select(*_ITEM).select_from(joined).where(*chosen).order_by(RESPONSES.c.created_at)
                found |= {row.id: StoredItem(*row) for row in await connection.execute(query)}
        return found


def _filter_readable(owner: str, now: float) -> tuple[Any, ...]:
    return RESPONSES.c.owner == owner, RESPONSES.c.expires_at > now


def _chain(response_id: str, owner: str, now: float) -> CTE:
    """Return a response and those that it continues, with their distance from it."""
    columns = (RESPONSES.c.id, RESPONSES.c.previous_id, RESPONSES.c.size)
    last = select(*columns, literal(0).label("depth")).where(
        RESPONSES.c.id == response_id, *_filter_readable(owner, now)
    )
    chain = last.cte("chain", recursive=True)
    earlier = select(*columns, chain.c.depth + 1).where(
        RESPONSES.c.id == chain.c.previous_id, chain.c.depth < _MAX_TURNS, *_filter_readable(owner, now)
    )
    return chain.union_all(earlier)


def _select_continued(response: StoredResponse) -> list[Select[Any]]:
    """Return queries of the ids of the responses that one continues."""
    found: list[Select[Any]] = []
    if response.previous_id is not None:
        found.append(select(_chain(response.previous_id, response.owner, response.created_at).c.id))
    return found


def _check_id(response_id: str) -> None:
    """Raise `ResponseNotFound` for an unprintable id, which PostgreSQL rejects with an error of its own, and for a row
    that only holds items of a conversation.
    """
    if not response_id.isprintable() or response_id.startswith(ADDED):
        raise ResponseNotFound(response_id)


def _check_size(at: str, size: int, limit: int) -> None:
    if size > limit:
        raise InvalidRequest(at, f"what it refers to has {size} bytes; at most {limit} can be continued")
