"""The files of a daemon. Their content passes through memory in pieces, to the store and back."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from forge_proxy.batches.config import FilesConfig
from forge_proxy.batches.ports import FileStore, OpenFileStore
from forge_proxy.core.files import BLOCK, FilePurpose, FileTooLarge, StoredFile
from forge_proxy.engine.shielded_tasks import ShieldedTasks

_T = TypeVar("_T")
_DAY = 24 * 3600
_MB = 1_000_000
_INCOMPLETE_SECONDS = 24 * 3600
"""How long what was stored of an upload is kept if the daemon is killed meanwhile."""
_CLOSE_SECONDS = 5.0
_STORED_AT_ONCE = 16
"""Blocks of one transaction: a megabyte."""


@dataclass(frozen=True, slots=True)
class FilePage:
    """Some files of a list, and whether more follow."""

    files: Sequence[StoredFile]
    has_more: bool


class Files:
    """All files of a daemon. Every method raises `StoreUnavailable`. `now` returns the seconds since 1970."""

    def __init__(self, open_store: OpenFileStore, now: Callable[[], float], config: FilesConfig) -> None:
        self._open_store = open_store
        self._now = now
        self._config = config
        self._tasks = ShieldedTasks()

    async def create(self, owner: str, file_id: str | None = None, *, is_limited: bool = True) -> FileUpload:
        """Create a file, which is found once its upload is finished. One with the same id is replaced.

        Without `is_limited`, it may have any size.
        """
        now = self._now()
        file_id = file_id or f"file-{secrets.token_hex(16)}"
        file = StoredFile(file_id, owner, "", "user_data", 0, now, now + _INCOMPLETE_SECONDS)
        store = await self._open_store()
        await self.run(store.create(file))
        return FileUpload(file, store, self, is_limited=is_limited)

    async def get(self, file_id: str, owner: str) -> StoredFile:
        """Return a file. Raises `StoredFileNotFound`."""
        return await self.run((await self._open_store()).get(file_id, owner, self._now()))

    async def list(
        self, owner: str, purpose: FilePurpose | None, *, after: str | None, limit: int, newest_first: bool
    ) -> FilePage:
        """Return files by their time of creation. Raises `StoredFileNotFound` for `after`."""
        store = await self._open_store()
        listing = store.list(owner, self._now(), purpose, after=after, limit=limit + 1, newest_first=newest_first)
        found = await self.run(listing)
        return FilePage(found[:limit], len(found) > limit)

    async def read(self, file: StoredFile, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes]:
        """Yield the bytes of a file from `start` up to `end`, in pieces of at most a megabyte."""
        store = await self._open_store()
        end = file.size if end is None else min(end, file.size)
        while start < end:
            position = start // BLOCK
            count = min(_STORED_AT_ONCE, (end - 1) // BLOCK - position + 1)
            blocks = await self.run(store.read(file.id, position, count))
            if not blocks:  # it was deleted while it was read
                return
            piece = b"".join(blocks)
            begin = start - position * BLOCK
            piece = piece[begin : begin + end - start]
            start += len(piece)
            yield piece

    async def keep(self, file_id: str, until: float) -> None:
        """Keep a file at least until then."""
        await self.run((await self._open_store()).keep(file_id, until))

    async def delete(self, file_id: str, owner: str) -> None:
        """Delete a file. Raises `StoredFileNotFound`."""
        await self.run((await self._open_store()).delete(file_id, owner, self._now()))

    async def close(self) -> None:
        """Wait for operations in progress, before the store is closed."""
        await self._tasks.close(_CLOSE_SECONDS)

    def check_size(self, size: int) -> None:
        """Raise `FileTooLarge` for a file of more bytes than may be stored."""
        if size > self._config.max_mb * _MB:
            raise FileTooLarge(self._config.max_mb)

    def compute_expiry(self, created_at: float, seconds: int | None) -> float:
        """Return when a file expires: after `seconds`, or after the days of the configuration."""
        return created_at + (self._config.retention_days * _DAY if seconds is None else seconds)

    async def run(self, operation: Coroutine[Any, Any, _T]) -> _T:
        """Run a store operation, which no client that disconnects cancels: that would discard the connection."""
        return await self._tasks.run(operation)


class FileUpload:
    """A file that is being written."""

    def __init__(self, file: StoredFile, store: FileStore, files: Files, *, is_limited: bool) -> None:
        self._file = file
        self._store = store
        self._files = files
        self._is_limited = is_limited
        self._pending = bytearray()
        self._position = 0
        self._size = 0

    async def write(self, data: bytes) -> None:
        """Append data. Raises `FileTooLarge`."""
        self._size += len(data)
        if self._is_limited:
            self._files.check_size(self._size)
        self._pending += data
        if len(self._pending) >= BLOCK * _STORED_AT_ONCE:
            await self._store_blocks(len(self._pending) // BLOCK)

    async def finish(self, filename: str, purpose: FilePurpose, expires_after: int | None) -> StoredFile:
        """Complete the file and return its record; `expires_after` is in seconds."""
        if self._pending:
            await self._store_blocks(-(-len(self._pending) // BLOCK))
        expires_at = self._files.compute_expiry(self._file.created_at, expires_after)
        file = replace(self._file, filename=filename, purpose=purpose, size=self._size, expires_at=expires_at)
        await self._files.run(self._store.complete(file))
        return file

    async def discard(self) -> None:
        """Delete what was stored."""
        await self._files.run(self._store.discard(self._file.id))

    async def _store_blocks(self, count: int) -> None:
        blocks = [bytes(self._pending[at * BLOCK : (at + 1) * BLOCK]) for at in range(count)]
        del self._pending[: count * BLOCK]
        await self._files.run(self._store.append(self._file.id, self._position, blocks))
        self._position += count
