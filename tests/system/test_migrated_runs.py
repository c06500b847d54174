"""Runs of a real daemon, in every status, survive all migrations of jobs being undone and applied again."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from forge_proxy.store.connections import DatabaseConnections
from forge_proxy.store.database import downgrade, migrate
from tests.fakes.far_side import FarSide, far_side
from tests.fakes.postgres import Postgres
from tests.system.runs import RUNS, JsonDict, Place, events, kill, look, submission, submit, wait_until

STATUSES = ("completed", "failed", "cancelled", "requires_action", "running", "queued")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, side: FarSide, tmp_path: Path) -> Generator[Place]:
    if request.param == "sqlite":
        yield Place(side, tmp_path)
    else:
        server: Postgres = request.getfixturevalue("postgres_server")
        yield Place(side, tmp_path, server.create_database())


@pytest.fixture
def side() -> Generator[FarSide]:
    with far_side() as side:
        yield side


async def undo_and_migrate(url: str) -> list[str]:
    """Go back to the tables that runs had before they became jobs, and forth again; return the statuses there."""
    connections = DatabaseConnections(url)
    connections.lock()
    async with connections.writer.begin() as connection:
        await connection.run_sync(downgrade, "0001")
        statuses = [*(await connection.execute(text("SELECT status FROM runs"))).scalars()]
        await connection.run_sync(migrate)
    await connections.close()
    return statuses


def test_d41_runs_in_every_status_continue_after_migrations_down_and_up(place: Place, side: FarSide) -> None:
    runs: dict[str, JsonDict] = {}
    with place.daemon(env={"FORGE_PROXY_RUNS__MAX_RUNNING": "1"}) as proxy:
        body = submission(side, "look", "finish")
        runs["completed"] = wait_until(proxy, submit(proxy, body)["id"], "completed")
        runs["failed"] = wait_until(proxy, submit(proxy, {**body, "max_iterations": 1})["id"], "failed")
        asks = submission(side, "look", "ask", "finish", by_caller=("ask",))
        runs["requires_action"] = wait_until(proxy, submit(proxy, asks)["id"], "requires_action")
        waiting = wait_until(proxy, submit(proxy, asks)["id"], "requires_action")["id"]
        httpx.post(f"{proxy.url}{RUNS}/{waiting}/cancel", timeout=20)
        runs["cancelled"] = wait_until(proxy, waiting, "cancelled")
        side.hold("look")
        running = submit(proxy, body, **{"Idempotency-Key": "k"})["id"]
        side.wait_for_called("look", 4)
        runs["running"] = look(proxy, running)
        runs["queued"] = submit(proxy, body)
        feeds = {status: events(proxy, run["id"]) for status, run in runs.items() if status in STATUSES[:3]}
        kill(proxy)
    side.let_go("look")

    statuses = asyncio.run(undo_and_migrate(place.url))

    assert sorted(statuses) == sorted(STATUSES)
    with place.daemon() as proxy:
        for status in STATUSES[:4]:
            assert look(proxy, runs[status]["id"]) == runs[status]
        assert {status: events(proxy, runs[status]["id"]) for status in feeds} == feeds
        assert submit(proxy, body, **{"Idempotency-Key": "k"})["id"] == running
        (call,) = runs["requires_action"]["required_action"]
        outputs = {"outputs": [{"tool_call_id": call["id"], "output": "yes"}]}
        httpx.post(f"{proxy.url}{RUNS}/{runs['requires_action']['id']}/tool_outputs", json=outputs, timeout=20)
        for status in STATUSES[3:]:
            assert wait_until(proxy, runs[status]["id"], "completed", "failed")["status"] == "completed"
