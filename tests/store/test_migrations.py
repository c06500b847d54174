"""Every migration up and down, with data, on SQLite and PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, Row, insert, inspect, select, table, text

from forge_proxy.store.connections import DatabaseConnections
from forge_proxy.store.database import downgrade, migrate
from forge_proxy.store.tables import JOBS, METADATA
from tests.contracts.conftest import place

__all__ = ["place"]

JsonDict = dict[str, Any]
Tables = dict[str, list[Row[Any]]]
STATUSES = ("queued", "running", "requires_action", "completed", "failed", "cancelled")
"""Those of runs before they became jobs."""


def find_revisions() -> list[str]:
    """Return all revisions, oldest first."""
    config = Config()
    config.set_main_option("script_location", "forge_proxy.store:migrations")
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config).walk_revisions()
    return [script.revision for script in scripts][::-1]


REVISIONS = find_revisions()


@pytest.fixture
async def connections(place: str) -> AsyncGenerator[DatabaseConnections]:
    opened = DatabaseConnections(place)
    opened.lock()
    yield opened
    async with opened.writer.begin() as connection:
        await connection.run_sync(drop_everything)
    await opened.close()


def drop_everything(connection: Connection) -> None:
    tables = MetaData()
    tables.reflect(connection)
    tables.drop_all(connection)


def reflect(connection: Connection) -> MetaData:
    tables = MetaData()
    tables.reflect(connection)
    return tables


def read_all(connection: Connection) -> Tables:
    """Return the rows of all tables apart from alembic's."""
    return {
        name: sorted(connection.execute(select(text("*")).select_from(table(name))).all(), key=repr)
        for name in inspect(connection).get_table_names()
        if name != "alembic_version"
    }


def read_schema(connection: Connection) -> JsonDict:
    """Return the columns and indexes of all tables."""
    found = inspect(connection)
    return {
        name: (
            sorted((column["name"], str(column["type"]), column["nullable"]) for column in found.get_columns(name)),
            sorted((index["name"] or "", *map(str, index["column_names"])) for index in found.get_indexes(name)),
            sorted(map(str, found.get_foreign_keys(name))),
        )
        for name in found.get_table_names()
        if name != "alembic_version"
    }


def run_rows() -> list[JsonDict]:
    """Runs in every status as version 0001 stored them, one of which was written by yet another version."""
    submission = json.dumps({"workflow": {"name": "w"}, "user_message": 'say "é" \\ and }'}, ensure_ascii=False)
    state = '{"version":1,"state":{"messages":[{"text":"\\u00e9 ,\\"state\\":"}],"iteration":3}}'
    rows: list[JsonDict] = [
        {
            "id": f"run_{number}", "status": status, "workflow": "w", "model": None if number % 2 else "m",
            "created_at": 100.5 + number, "updated_at": 200.25, "last_event": 2, "cancel_requested": number == 1,
            "submission": submission, "state": state, "outcome": '{"kind":"error"}' if status == "failed" else None,
            "claim_key": f"key {number}" if number % 2 else None, "claim_digest": "d" if number % 2 else None,
        }
        for number, status in enumerate(STATUSES)
    ]  # fmt: skip
    return [*rows, {**rows[0], "id": "run_other", "state": '{"version":0,"x":[1,2]}', "claim_key": None}]


def fill(connection: Connection, revision: str) -> None:
    """Insert rows into the tables that a migration has created."""
    tables = reflect(connection).tables
    rows: dict[str, list[JsonDict]] = {}
    match revision:
        case "0001":
            runs = run_rows()
            events = [
                {"run_id": run["id"], "id": number, "type": "status", "data": '{"status":"x"}', "at": 1.5}
                for run in runs
                for number in (1, 2)
            ]
            rows = {"runs": runs, "run_events": events}
        case "0002":
            base = {"owner": "o", "created_at": 1.0, "expires_at": 9e9, "size": 2, "document": "{}"}
            responses: list[JsonDict] = [
                {**base, "id": "r1", "previous_id": None, "conversation_id": "c1"},
                {**base, "id": "r2", "previous_id": "r1", "conversation_id": None},
            ]
            item = {"response_id": "r1", "position": 0, "id": "i1", "kind": "input", "data": "{}"}
            rows = {"responses": responses, "response_items": [item]}
        case "0003":
            document = {"digest": "d" * 64, "size": 1, "data": b"x"}
            rows = {"documents": [document]}
        case "0004":
            rows = {
                "conversations": [
                    {"owner": "o", "id": "c2", "created_at": 1.0, "expires_at": 9e9, "metadata": "{}"},
                ]
            }
        case "0005":
            file: JsonDict = {
                "id": "file-1", "owner": "o", "filename": "f", "purpose": "batch", "size": 3_000_000_000,
                "created_at": 1.0, "expires_at": 9e9, "is_complete": True,
            }  # fmt: skip
            rows = {"files": [file], "file_blocks": [{"file_id": "file-1", "position": 0, "data": b"\x00\x01"}]}
        case "0006":
            connection.execute(tables["jobs"].update().values(change_id="c", wake_requested=True))
        case "0007":
            rows = {"job_outbox": [{"job_id": "run_0", "signal": "start"}]}
        case "0008":
            request: JsonDict = {
                "number": 7, "request_id": "r", "ended_at": 1.5, "surface": "messages", "client": "", "program": "",
                "model": None, "served": "m", "quantization": "", "is_streamed": True, "tools": 1, "result": "retried",
                "seconds": 1.0, "queued": 0.0, "first_output": None, "backend_seconds": 0.5, "details": "{}",
            }  # fmt: skip
            rows = {
                "requests": [request],
                "request_faults": [{"fault": "text", "number": 7}],
                "request_durations": [{"hour": 1, "model": "m", "measure": "seconds", "bucket": 3, "count": 2}],
                "ledger": [
                    {
                        "hour": 1, "model": "m", "quantization": "", "tool": "t", "fault": "", "calls": 1, "clean": 1,
                        "repaired": 0, "retried": 0, "failed": 0, "tokens": 5_000_000_000, "seconds": 0.5,
                    }
                ],
            }  # fmt: skip
        case "0009":
            schedule = {"name": "s", "kind": "run", "interval": 5.0, "next_at": 1.0, "job_id": None}
            rows = {"job_schedules": [schedule], "job_notifications": [{"job_id": "run_0", "event": 2}]}
        case "0010":
            rows = {"request_contents": [{"number": 7, "ended_at": 1.5, "size": 2, "data": b"\x00\x01"}]}
        case "0011":
            call = {"task_id": "run_0", "round": 1, "part": 0, "at": 1.5, "tier": "generation", "model": "m",
                    "outcome": "passed", "details": "{}"}  # fmt: skip
            rows = {"task_calls": [call]}
        case _:
            pytest.fail(f"migration {revision} has no rows here: add them")
    for name, values in rows.items():
        connection.execute(insert(tables[name]), values)


async def test_d41_every_migration_is_undone_and_applied_again_with_data(connections: DatabaseConnections) -> None:
    def climb(connection: Connection) -> None:
        """Go up one migration at a time, each of which is undone once before it stays."""
        below = "base"
        for revision in REVISIONS:
            rows, schema = read_all(connection), read_schema(connection)
            migrate(connection, revision)
            above, above_schema = read_all(connection), read_schema(connection)

            downgrade(connection, below)
            assert read_all(connection) == rows, f"{revision} changed rows of {below}"
            assert read_schema(connection) == schema, f"{revision} changed tables of {below}"
            migrate(connection, revision)
            assert (read_all(connection), read_schema(connection)) == (above, above_schema)

            fill(connection, revision)
            downgrade(connection, below)
            assert read_schema(connection) == schema
            kept = read_all(connection)
            assert [name for name in rows if kept[name] != rows[name]] == []
            migrate(connection, revision)
            fill(connection, revision)
            below = revision

    async with connections.writer.begin() as connection:
        await connection.run_sync(climb)
        differences = await connection.run_sync(
            lambda sync: compare_metadata(MigrationContext.configure(sync), METADATA)
        )

    assert differences == []


async def test_d41_all_migrations_are_undone_at_once_and_runs_are_as_they_were(
    connections: DatabaseConnections,
) -> None:
    def go_up_and_down(connection: Connection) -> tuple[Tables, Tables, Tables]:
        migrate(connection, "0001")
        fill(connection, "0001")
        before = read_all(connection)
        migrate(connection)
        jobs = read_all(connection)
        downgrade(connection, "0001")
        after = read_all(connection)
        downgrade(connection, "base")
        assert read_all(connection) == {}
        return before, jobs, after

    async with connections.writer.begin() as connection:
        before, jobs, after = await connection.run_sync(go_up_and_down)

    assert before == after
    assert {row.status for row in jobs["jobs"]} == set(STATUSES)
    assert [row.kind for row in jobs["jobs"]] == ["run"] * len(before["runs"])
    assert len(jobs["job_events"]) == len(before["run_events"])


async def test_d41_jobs_of_other_kinds_are_not_lost_by_a_downgrade(connections: DatabaseConnections) -> None:
    async with connections.writer.begin() as connection:
        await connection.run_sync(migrate)
        values: JsonDict = {
            "id": "batch_1", "kind": "batch", "status": "completed", "title": "t", "created_at": 1.0,
            "updated_at": 1.0, "last_event": 1, "cancel_requested": False, "root": "batch_1", "depth": 0,
            "wake_requested": False, "change_id": "", "action": "{}", "state": "{}",
        }  # fmt: skip
        await connection.execute(insert(JOBS).values(**values))

    async def undo() -> None:
        async with connections.writer.begin() as connection:
            await connection.run_sync(downgrade, "0002")

    with pytest.raises(ValueError, match="1 jobs are not runs and cannot be kept: delete them first"):
        await undo()

    async with connections.readers.connect() as connection:
        tables = await connection.run_sync(read_all)
    assert [row.id for row in tables["jobs"]] == ["batch_1"]
    assert "job_schedules" in tables
