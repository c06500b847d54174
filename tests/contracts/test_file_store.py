"""The contract of `FileStore`, for SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from forge_proxy.core.files import BLOCK, StoredFile, StoredFileNotFound
from forge_proxy.store.database import open_database
from forge_proxy.store.files import FileRepository

NOW, END = 100.0, 200.0


@pytest.fixture
async def store(place: str) -> AsyncGenerator[FileRepository]:
    database = await open_database(place)
    opened = FileRepository(database)
    await opened.create(replace(file("file-eraser"), created_at=1e9, expires_at=2e9))  # deletes what has expired
    await opened.discard("file-eraser")
    yield opened
    await database.close()


def file(name: str = "file-1", at: float = NOW, owner: str = "me") -> StoredFile:
    return StoredFile(name, owner, "é.jsonl", "batch", 3, at, END)


async def put(store: FileRepository, one: StoredFile, *blocks: bytes) -> None:
    await store.create(one)
    await store.append(one.id, 0, blocks or [b"abc"])
    await store.complete(one)


async def test_a_file_is_found_by_its_owner_once_it_is_complete(store: FileRepository) -> None:
    await store.create(file())
    with pytest.raises(StoredFileNotFound):
        await store.get("file-1", "me", NOW)
    assert await store.list("me", NOW, None, after=None, limit=10, newest_first=True) == []
    await store.append("file-1", 0, [b"abc"])
    await store.complete(file())

    assert await store.get("file-1", "me", NOW) == file()
    for owner, now in (("other", NOW), ("me", END)):
        with pytest.raises(StoredFileNotFound):
            await store.get("file-1", owner, now)
        with pytest.raises(StoredFileNotFound):
            await store.delete("file-1", owner, now)
    await store.delete("file-1", "me", NOW)
    with pytest.raises(StoredFileNotFound):
        await store.get("file-1", "me", NOW)
    assert await store.read("file-1", 0, 1) == []


async def test_blocks_are_read_from_any_position(store: FileRepository) -> None:
    await store.create(file())
    blocks = [bytes([number]) * BLOCK for number in range(5)]
    await store.append("file-1", 0, blocks[:3])
    await store.append("file-1", 3, blocks[3:])

    assert await store.read("file-1", 0, 5) == blocks
    assert await store.read("file-1", 2, 1) == [blocks[2]]
    assert await store.read("file-1", 4, 9) == [blocks[4]]
    assert await store.read("file-1", 5, 9) == []


async def test_files_are_listed_page_by_page(store: FileRepository) -> None:
    for number in range(4):
        await put(store, file(f"file-{number}", NOW + number // 2))
    await put(store, replace(file("file-9"), purpose="user_data"))
    await put(store, file("file-8", owner="other"))

    async def listed(after: str | None = None, *, newest_first: bool = True) -> list[str]:
        found = await store.list("me", NOW, "batch", after=after, limit=2, newest_first=newest_first)
        return [one.id for one in found]

    assert [await listed(), await listed("file-2"), await listed("file-0")] == [
        ["file-3", "file-2"], ["file-1", "file-0"], [],
    ]  # fmt: skip
    assert await listed("file-1", newest_first=False) == ["file-2", "file-3"]
    assert len(await store.list("me", NOW, None, after=None, limit=9, newest_first=True)) == 5
    with pytest.raises(StoredFileNotFound):
        await listed("file-8")


async def test_an_expired_file_is_deleted_unless_it_is_kept(store: FileRepository) -> None:
    for name in ("file-1", "file-2"):
        await put(store, file(name))
    await store.keep("file-1", END + 50)
    await store.keep("file-1", END + 20)  # no earlier than before
    await store.create(file("file-3", END + 1))

    assert await store.read("file-2", 0, 1) == []
    assert await store.read("file-1", 0, 1) == [b"abc"]
    assert (await store.get("file-1", "me", END)).expires_at == END + 50


async def test_an_incomplete_file_is_replaced_or_discarded(store: FileRepository) -> None:
    await store.create(file())
    await store.append("file-1", 0, [b"old", b"old"])
    await put(store, file(), b"new")
    await store.discard("file-1")  # complete files stay

    assert await store.read("file-1", 0, 9) == [b"new"]
    with pytest.raises(StoredFileNotFound):
        await store.append("file-2", 0, [b"x"])
    with pytest.raises(StoredFileNotFound):
        await store.complete(file("file-2"))
    for name in ("file-\0", "", "x" * 5000, "\n", "%"):
        with pytest.raises(StoredFileNotFound):
            await store.get(name, "me", NOW)
