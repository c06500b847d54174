"""Requests while the store that records them, with their texts, is killed or full: none fails, and none is lost."""

from __future__ import annotations

import resource
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import pytest

from tests.api.test_mistakes import ASK, RIGHT
from tests.fakes.postgres import Postgres, postgres
from tests.fakes.processes import Process, daemon, until
from tests.transcripts.replies import openai_replies
from tests.transcripts.server import ScriptedServer, scripted_server

ROUTE = "/admin/v1/requests"
CLIENTS, EACH = 3, 12


@pytest.fixture
def server() -> Generator[ScriptedServer]:
    with scripted_server() as running:
        yield running


@pytest.fixture
def database() -> Generator[Postgres]:
    with postgres() as running:
        yield running


def storing(server: ScriptedServer, **env: str) -> dict[str, str]:
    server.set_script(openai_replies((RIGHT,) * (CLIENTS * EACH), stream=False))
    return {"FORGE_PROXY_STORE__CONTENT": "on", **env}


def send_while(proxy: Process, fault: Callable[[], object]) -> list[str]:
    """Send requests from several clients, the fault in their midst. Returns their ids; each was answered."""
    third_sent = Event()

    def send(client: int) -> list[str]:
        names: list[str] = []
        for number in range(EACH):
            answer = httpx.post(f"{proxy.url}/v1/chat/completions", json=ASK, timeout=20)
            assert answer.status_code == 200, answer.text
            assert answer.json()["choices"][0]["message"]["tool_calls"]
            names.append(answer.headers["x-request-id"])
            if (client, number) == (0, EACH // 3):
                third_sent.set()
        return names

    with ThreadPoolExecutor(CLIENTS) as pool:
        sent = [pool.submit(send, client) for client in range(CLIENTS)]
        assert third_sent.wait(60)
        fault()
        return [name for one in sent for name in one.result()]


def read_stored(proxy: Process) -> list[str]:
    answer = httpx.get(f"{proxy.url}{ROUTE}", params={"limit": 100}, timeout=20)
    return sorted(one["request_id"] for one in answer.json()["data"]) if answer.is_success else []


def check_stored(proxy: Process, names: list[str]) -> None:
    until(lambda: read_stored(proxy) == sorted(names), "each request is stored once")
    for name in names:
        shown = httpx.get(f"{proxy.url}{ROUTE}/{name}", timeout=20).json()
        assert shown["content"]["attempts"], shown
    assert proxy.printed.count('"requests not stored"') <= 1
    assert "Traceback" not in proxy.printed


def test_postgresql_killed_in_mid_traffic_loses_no_request(server: ScriptedServer, database: Postgres) -> None:
    env = storing(server, FORGE_PROXY_STORE__URL=database.url)
    with daemon("--backend", "openai", "--backend-url", f"{server.url}/v1", env=env) as proxy:
        names = send_while(proxy, database.stop)
        unavailable = httpx.get(f"{proxy.url}{ROUTE}", timeout=20)
        database.start()
        check_stored(proxy, names)

    assert unavailable.status_code == 503


def test_a_full_disk_loses_no_request_and_no_text(server: ScriptedServer, tmp_path: Path) -> None:
    env = storing(server, XDG_STATE_HOME=str(tmp_path))
    with daemon("--backend", "openai", "--backend-url", f"{server.url}/v1", env=env) as proxy:
        unlimited = resource.prlimit(proxy.pid, resource.RLIMIT_FSIZE)
        names = send_while(proxy, lambda: resource.prlimit(proxy.pid, resource.RLIMIT_FSIZE, (0, unlimited[1])))
        proxy.wait_for("requests not stored")
        resource.prlimit(proxy.pid, resource.RLIMIT_FSIZE, unlimited)
        check_stored(proxy, names)
