"""Repository of files. Their content is stored in compressed blocks, so that any part of it can be read."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, delete, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from forge_proxy.core.files import FilePurpose, StoredFile, StoredFileNotFound
from forge_proxy.store.database import Database
from forge_proxy.store.tables import FILE_BLOCKS, FILES

_LEVEL = 1
"""zlib's fastest level."""
_COLUMNS = (
    FILES.c.id, FILES.c.owner, FILES.c.filename, FILES.c.purpose, FILES.c.size, FILES.c.created_at, FILES.c.expires_at,
)  # fmt: skip


class FileRepository:
    """`batches.ports.FileStore` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, file: StoredFile) -> None:
        """See `FileStore`."""
        async with self._database.write() as connection:
            await connection.execute(delete(FILES).where(FILES.c.expires_at <= file.created_at))
            await connection.execute(delete(FILES).where(FILES.c.id == file.id))
            await connection.execute(insert(FILES).values(**asdict(file), is_complete=False))

    async def append(self, file_id: str, position: int, blocks: Sequence[bytes]) -> None:
        """See `FileStore`."""
        packed = await asyncio.to_thread(lambda: [zlib.compress(block, _LEVEL) for block in blocks])
        rows = [{"file_id": file_id, "position": at, "data": data} for at, data in enumerate(packed, position)]
        try:
            async with self._database.write() as connection:
                await connection.execute(insert(FILE_BLOCKS), rows)
        except IntegrityError as error:
            raise StoredFileNotFound(file_id) from error

    async def complete(self, file: StoredFile) -> None:
        """See `FileStore`."""
        async with self._database.write() as connection:
            changed = update(FILES).where(FILES.c.id == file.id).values(**asdict(file), is_complete=True)
            if (await connection.execute(changed)).rowcount == 0:
                raise StoredFileNotFound(file.id)

    async def discard(self, file_id: str) -> None:
        """See `FileStore`."""
        async with self._database.write() as connection:
            await connection.execute(delete(FILES).where(FILES.c.id == file_id, ~FILES.c.is_complete))

    async def get(self, file_id: str, owner: str, now: float) -> StoredFile:
        """See `FileStore`."""
        async with self._database.read() as connection:
            return await _get(connection, file_id, owner, now)

    async def list(
        self, owner: str, now: float, purpose: FilePurpose | None, *, after: str | None, limit: int, newest_first: bool
    ) -> Sequence[StoredFile]:
        """See `FileStore`."""
        query = select(*_COLUMNS).where(*_filter_visible(owner, now)).limit(limit)
        if purpose is not None:
            query = query.where(FILES.c.purpose == purpose)
        order = (FILES.c.created_at, FILES.c.id)
        query = query.order_by(*(column.desc() for column in order) if newest_first else order)
        async with self._database.read() as connection:
            if after is not None:
                last = await _get(connection, after, owner, now)
                at, of_last = tuple_(*order), tuple_(last.created_at, last.id)
                query = query.where(at < of_last if newest_first else at > of_last)
            return [StoredFile(*row) for row in await connection.execute(query)]

    async def read(self, file_id: str, position: int, count: int) -> Sequence[bytes]:
        """See `FileStore`."""
        is_chosen = FILE_BLOCKS.c.position.between(position, position + count - 1)
        query = select(FILE_BLOCKS.c.data).where(FILE_BLOCKS.c.file_id == file_id, is_chosen)
        async with self._database.read() as connection:
            packed = (await connection.execute(query.order_by(FILE_BLOCKS.c.position))).scalars().all()
        if len(packed) == 1:
            return [zlib.decompress(packed[0])]
        return await asyncio.to_thread(lambda: [zlib.decompress(block) for block in packed])

    async def keep(self, file_id: str, until: float) -> None:
        """See `FileStore`."""
        async with self._database.write() as connection:
            where = (FILES.c.id == file_id, FILES.c.expires_at < until)
            await connection.execute(update(FILES).where(*where).values(expires_at=until))

    async def delete(self, file_id: str, owner: str, now: float) -> None:
        """See `FileStore`."""
        async with self._database.write() as connection:
            await _get(connection, file_id, owner, now)
            await connection.execute(delete(FILES).where(FILES.c.id == file_id))


def _filter_visible(owner: str, now: float) -> tuple[ColumnElement[bool], ...]:
    return FILES.c.owner == owner, FILES.c.expires_at > now, FILES.c.is_complete


async def _get(connection: AsyncConnection, file_id: str, owner: str, now: float) -> StoredFile:
    if not file_id.isprintable():  # PostgreSQL rejects NUL with an error of its own
        raise StoredFileNotFound(file_id)
    query: Any = select(*_COLUMNS).where(FILES.c.id == file_id, *_filter_visible(owner, now))
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise StoredFileNotFound(file_id)
    return StoredFile(*row)
