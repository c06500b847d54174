"""docs/operations.md is correct: its examples work, and its statements about files and commands are true."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
from pathlib import Path

import pytest

from forge_proxy.api.config import ServerConfig
from forge_proxy.jobs.ports import JobFilter
from forge_proxy.settings import load
from forge_proxy.store.tables import METADATA
from forge_proxy.telemetry import log_writer
from tests.contracts.test_store import row
from tests.docs.guides import GUIDES, blocks
from tests.fakes.owned_store import OwnedJobRepository
from tests.fakes.postgres import postgres

TEXT = (GUIDES / "operations.md").read_text()


def test_the_example_of_settings_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_KEY", "sk-team")
    monkeypatch.setenv("SERVER_KEY", "sk-server")
    file = tmp_path / "config.yaml"
    file.write_text(blocks(TEXT, "yaml")[0])

    settings = load(file, {})

    assert [key.get_secret_value() for key in settings.server.api_keys] == ["sk-team"]
    assert settings.backend.api_key is not None
    assert settings.backend.api_key.get_secret_value() == "sk-server"


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"`server.drain_seconds` ({ServerConfig().drain_seconds})" in TEXT
    assert f"buffers up to {log_writer.LIMIT >> 20} MB of lines" in TEXT


async def test_a_backup_of_an_open_store_is_a_whole_store(tmp_path: Path) -> None:
    store = await OwnedJobRepository.open(f"sqlite+aiosqlite:///{tmp_path / 'runs.db'}")
    with sqlite3.connect(tmp_path / "runs.db") as source, sqlite3.connect(tmp_path / "backup.db") as target:
        source.backup(target)  # what `.backup` of the sqlite3 program does
    source.close()
    target.close()
    await store.close()

    restored = await OwnedJobRepository.open(f"sqlite+aiosqlite:///{tmp_path / 'backup.db'}")
    await restored.close()
    with sqlite3.connect(tmp_path / "backup.db") as copy:
        tables = {name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    copy.close()
    assert set(METADATA.tables) <= tables


async def test_the_commands_for_postgresql_back_up_and_restore_a_store(tmp_path: Path) -> None:
    commands = next(block for block in blocks(TEXT, "") if "pg_dump" in block)
    with postgres() as server:
        store = await OwnedJobRepository.open(server.url)
        await store.create(row(), None)
        await store.close()
        url = server.url.replace("+asyncpg", "")
        script = commands.replace("postgresql://user@host/database", f"'{url}'")

        done = await asyncio.to_thread(
            subprocess.run, ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )

        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / "runs.dump").stat().st_mode & 0o777 == 0o600
        restored = await OwnedJobRepository.open(server.url)
        assert [head.id for head in await restored.list(JobFilter(), before=None, limit=10)] == ["job_1"]
        await restored.close()
