"""A model that got worse, over a real daemon with a stored ledger."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx

from forge_proxy.core.guardrails.turn import Outcome
from forge_proxy.core.requests.records import CallRecord
from forge_proxy.core.requests.stored import EndedRequest
from forge_proxy.store.database import open_database
from forge_proxy.store.requests import RequestRepository
from tests.fakes.processes import command, daemon
from tests.fakes.records import record_with
from tests.transcripts.server import scripted_server

DAY = 86400


async def fill(file: Path) -> None:
    """Store ten days, of which the last one has many more calls in text."""
    database = await open_database(f"sqlite+aiosqlite:///{file}")
    now = time.time()
    ended: list[EndedRequest] = []
    for age in range(10):
        for number in range(100):
            is_faulty = number % (2 if age == 0 else 25) == 0
            outcome = Outcome.RESCUED if is_faulty else Outcome.CLEAN
            record = record_with(result=outcome.value, calls=(CallRecord("read_file", outcome),))
            ended.append(EndedRequest(now - age * DAY - 3600, record, "qwen3:8b", "Q4_K_M"))
    await RequestRepository(database).add(ended)
    await database.close()


def test_a_model_that_got_worse_is_in_the_ledger_and_in_the_command(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path / "forge-proxy" / "runs.db"))
    env = {"XDG_STATE_HOME": str(tmp_path)}
    with scripted_server() as server, daemon("--backend-url", f"{server.url}/v1", env=env) as process:
        alerts = httpx.get(f"{process.url}/admin/v1/ledger/alerts").json()["data"]
        (alert,) = alerts
        assert (alert["model"], alert["tool"], alert["recent_calls"], alert["past_calls"]) == (
            "qwen3:8b", "read_file", 100, 900,
        )  # fmt: skip
        assert alert["summary"] == (
            "qwen3:8b, read_file: 50.0 % of the calls of the last 24 hours had a fault, 4.0 % before."
        )
        assert httpx.get(f"{process.url}/admin/v1/ledger").json()["alerts"] == alerts
        assert f"Got worse: {alert['summary']}" in command("ledger", "--url", process.url).out

    off = {**env, "FORGE_PROXY_LEDGER__ALERTS": "off"}
    with scripted_server() as server, daemon("--backend-url", f"{server.url}/v1", env=off) as process:
        assert httpx.get(f"{process.url}/admin/v1/ledger/alerts").json() == {"data": []}
