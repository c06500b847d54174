"""`/v1/files` with the real `openai` SDK, and with requests that are wrong."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from openai import AsyncOpenAI

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.batches.config import FilesConfig
from forge_proxy.batches.files import Files
from forge_proxy.core.store_errors import StoreFull
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.memory import MemoryBudget
from forge_proxy.store.database import open_database
from forge_proxy.store.files import FileRepository
from tests.fakes.full_disk import limit_file_size
from tests.fakes.scripted import ScriptedHttp, StillClock

PATH = "/v1/files"
CONTENT = b"".join(b'{"custom_id": "%d"}\n' % number for number in range(20_000))


@asynccontextmanager
async def serving(folder: Path, config: FilesConfig | None = None) -> AsyncGenerator[httpx2.AsyncClient]:
    """An application whose files are in a database in the folder."""
    engine_backend = OpenAICompatible("http://scripted", ScriptedHttp(()))
    engine = Engine(EngineConfig(engine_backend, StillClock(), [].append))
    database = await open_database(f"sqlite+aiosqlite:///{folder}/runs.db")

    async def open_store() -> FileRepository:
        return FileRepository(database)

    seconds = count(1000.0)
    files = Files(open_store, lambda: next(seconds), config or FilesConfig())
    app = create_app(engine, engine_backend, ServerConfig(max_body_mb=1), memory=MemoryBudget(8_000_000), files=files)
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    try:
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client
    finally:
        await database.close()


def sdk(client: httpx2.AsyncClient, key: str = "one") -> AsyncOpenAI:
    return AsyncOpenAI(api_key=key, base_url="http://127.0.0.1/v1", http_client=client, max_retries=0)


async def test_the_sdk_uploads_lists_reads_and_deletes_a_file(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        ai = sdk(client)
        made = await ai.files.create(file=("é.jsonl", CONTENT), purpose="batch")
        data = await ai.files.create(
            file=("b", b""), purpose="user_data", expires_after={"anchor": "created_at", "seconds": 3600}
        )

        assert (made.bytes, made.filename, made.purpose, made.status) == (len(CONTENT), "é.jsonl", "batch", "processed")
        assert made.expires_at == made.created_at + 30 * 24 * 3600
        assert data.expires_at == data.created_at + 3600
        assert await ai.files.retrieve(made.id) == made
        assert (await ai.files.content(made.id)).content == CONTENT
        assert (await ai.files.content(data.id)).content == b""
        assert [one.id async for one in ai.files.list(limit=1)] == [data.id, made.id]
        assert [one.id async for one in ai.files.list(purpose="batch", order="asc")] == [made.id]
        assert (await ai.files.delete(made.id)).deleted
        with pytest.raises(openai.NotFoundError, match="no file"):
            await ai.files.content(made.id)


async def test_each_client_sees_only_its_own_files(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        made = await sdk(client).files.create(file=("a", b"x"), purpose="batch")
        other = sdk(client, "two")

        assert [one.id async for one in other.files.list()] == []
        for operation in (other.files.retrieve, other.files.content, other.files.delete):
            with pytest.raises(openai.NotFoundError):
                await operation(made.id)


@pytest.mark.parametrize(
    ("header", "status", "expected"),
    [
        ("bytes=0-9", 206, CONTENT[:10]),
        ("bytes=65530-65545", 206, CONTENT[65530:65546]),
        (f"bytes={len(CONTENT) - 5}-", 206, CONTENT[-5:]),
        ("bytes=-7", 206, CONTENT[-7:]),
        ("bytes=10-99999999", 206, CONTENT[10:]),
        ("bytes=0-1,5-6", 200, CONTENT),
        ("bytes=9-3", 200, CONTENT),
        ("lines=1-2", 200, CONTENT),
        ("bytes=-", 200, CONTENT),
    ],
)
async def test_a_range_of_the_content_is_read(tmp_path: Path, header: str, status: int, expected: bytes) -> None:
    async with serving(tmp_path) as client:
        made = await sdk(client).files.create(file=("a", CONTENT), purpose="batch")
        url = f"{PATH}/{made.id}/content"
        found = await client.get(url, headers={"authorization": "Bearer one", "range": header})

        assert (found.status_code, found.content) == (status, expected)
        assert found.headers["content-length"] == str(len(expected))
        if status == 206:
            start = (
                CONTENT.index(expected) if len(expected) > 20 else int(found.headers["content-range"][6:].split("-")[0])
            )
            assert found.headers["content-range"] == f"bytes {start}-{start + len(expected) - 1}/{len(CONTENT)}"
        stale = await client.get(url, headers={"authorization": "Bearer one", "range": header, "if-range": '"old"'})
        assert (stale.status_code, len(stale.content)) == (200, len(CONTENT))


async def test_a_range_beyond_the_end_is_an_error_with_the_size(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        made = await sdk(client).files.create(file=("a", b"12345"), purpose="batch")
        for header in ("bytes=5-", "bytes=-0"):
            found = await client.get(
                f"{PATH}/{made.id}/content", headers={"authorization": "Bearer one", "range": header}
            )
            assert (found.status_code, found.headers["content-range"]) == (416, "bytes */5")


FILE: Any = {"file": ("a.jsonl", b"{}")}
BATCH: Any = {"purpose": "batch"}
SHORT: Any = {**BATCH, "expires_after[anchor]": "created_at", "expires_after[seconds]": "5"}
TWO: Any = [("file", ("a", b"1")), ("file", ("b", b"2"))]


@pytest.mark.parametrize(
    ("form", "status", "message"),
    [
        ({"data": BATCH, "files": {"other": ("a", b"")}}, 400, "file: missing"),
        ({"files": FILE}, 400, "purpose: expected batch or user_data"),
        ({"data": {"purpose": "batch_output"}, "files": FILE}, 400, "purpose: expected batch or user_data"),
        ({"data": {"purpose": "x" * 2000}, "files": FILE}, 400, "purpose: longer than 1000 bytes"),
        ({"data": {**BATCH, "expires_after[anchor]": "now"}, "files": FILE}, 400, "expires_after.anchor: expected"),
        ({"data": SHORT, "files": FILE}, 400, "expires_after.seconds: expected an integer from 3600 to 2592000"),
        ({"data": BATCH, "files": {"file": ("a" * 300, b"")}}, 400, "file: expected a file with a printable name"),
        ({"data": BATCH, "files": TWO}, 400, "file: expected one file"),
        ({"json": BATCH}, 400, "content-type: expected multipart/form-data with a boundary"),
        ({"data": BATCH, "files": {"file": ("a", b"x" * 3_000_001)}}, 413, "file: larger than 3 MB (files.max_mb)"),
    ],
)
async def test_a_wrong_upload_names_the_field_and_stores_nothing(
    tmp_path: Path, form: dict[str, Any], status: int, message: str
) -> None:
    async with serving(tmp_path, FilesConfig(max_mb=3)) as client:
        found = await client.post(PATH, **form)
        error = found.json()["error"]

        assert found.status_code == status
        assert error["message"].startswith(message)
        assert (await client.get(PATH)).json()["data"] == []


async def test_a_form_with_the_file_first_is_read_too(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        raw = (
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n'
            b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b--\r\n'
        )
        headers = {"content-type": "multipart/form-data; boundary=b"}
        assert (await client.post(PATH, content=raw, headers=headers)).json()["bytes"] == 1
        cut = await client.post(PATH, content=raw[:-8], headers=headers)

        assert (cut.status_code, cut.json()["error"]["message"]) == (
            400,
            "body: the form ends before its last boundary",
        )
        assert len((await client.get(PATH)).json()["data"]) == 1


@pytest.mark.long
async def test_a_file_larger_than_the_memory_budget_is_streamed_to_the_store(tmp_path: Path) -> None:
    piece = os.urandom(50_000)

    async def form() -> AsyncGenerator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(400):
            yield piece
        yield b"\r\n--b--\r\n"

    async with serving(tmp_path) as client:
        headers = {"content-type": "multipart/form-data; boundary=b"}
        made = (await client.post(PATH, content=form(), headers=headers)).json()

        assert made["bytes"] == 20_000_000
        assert (await client.get(f"{PATH}/{made['id']}/content")).content == piece * 400


async def test_an_upload_that_its_client_breaks_off_is_deleted(tmp_path: Path) -> None:
    async def form() -> AsyncGenerator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + b"x" * 2_000_000
        raise ConnectionError

    async with serving(tmp_path) as client:
        found = await client.post(PATH, content=form(), headers={"content-type": "multipart/form-data; boundary=b"})
        assert found.status_code == 500
        assert await asyncio.to_thread(count_blocks, tmp_path) == 0


def count_blocks(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "runs.db")) as connection:
        return connection.execute("SELECT count(*) FROM file_blocks").fetchone()[0]


async def test_an_upload_to_a_full_disk_fails_and_stores_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        kept = await client.post(PATH, data={"purpose": "batch"}, files={"file": ("a", b"x")})
        with limit_file_size(1_500_000):
            found = await client.post(PATH, data={"purpose": "batch"}, files={"file": ("a", os.urandom(9_000_000))})
            assert (found.status_code, found.json()["error"]["code"]) == (503, "store_unavailable")
            listed = (await client.get(PATH)).json()["data"]

        assert [one["id"] for one in listed] == [kept.json()["id"]]


async def test_a_store_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    async def open_store() -> FileRepository:
        raise StoreFull("OperationalError: database or disk is full; free some space on its disk")

    backend = OpenAICompatible("http://scripted", ScriptedHttp(()))
    engine = Engine(EngineConfig(backend, StillClock(), [].append))
    app = create_app(engine, backend, ServerConfig(), files=Files(open_store, lambda: 0.0, FilesConfig()))
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for found in (
            await client.post(PATH, data={"purpose": "batch"}, files=FILE),
            await client.get(PATH),
            await client.get(f"{PATH}/file-1"),
            await client.get(f"{PATH}/file-1/content"),
            await client.delete(f"{PATH}/file-1"),
        ):
            assert found.status_code == 503
            assert "free some space on its disk" in found.json()["error"]["message"]
            assert found.headers["retry-after"] == "5"
