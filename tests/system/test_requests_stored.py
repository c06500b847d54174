"""The stored requests and the ledger of a real daemon over a real llama.cpp, by its commands."""

from __future__ import annotations

import json
import signal
import sqlite3
from pathlib import Path

import httpx

from tests.fakes.processes import Ended, Process, command, daemon, until
from tests.live.weather import ASK_PARIS, MODEL, TOOLS


def guarded(running: Process, count: int = 1, **headers: str) -> None:
    """Send requests that are answered with a call."""
    body = {"model": MODEL, "messages": ASK_PARIS, "tools": TOOLS, "temperature": 0}
    for _ in range(count):
        answer = httpx.post(f"{running.url}/v1/chat/completions", json=body, headers=headers, timeout=60)
        assert answer.status_code == 200


def ask(running: Process, *words: str) -> Ended:
    return command(*words, env={"FORGE_PROXY_URL": running.url})


def listed(running: Process, *words: str) -> list[dict[str, object]]:
    return json.loads(ask(running, "requests", "list", "--json", *words).out)["data"]


def test_requests_are_listed_shown_and_counted(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    with daemon("--backend", "embedded", env=env) as running:
        guarded(running, 2, **{"x-request-id": "mine"})
        refused = httpx.post(f"{running.url}/v1/chat/completions", json={"model": MODEL, "messages": []})
        assert refused.status_code == 400
        until(lambda: len(listed(running)) >= 2, "both requests are stored")

        found = listed(running)
        shown = ask(running, "requests", "show", "mine")
        ledger = ask(running, "ledger")
        table = ask(running, "ledger", "--since", "24h", "--markdown")
        as_json = json.loads(ask(running, "ledger", "--json").out)

    assert {request["request_id"] for request in found} == {"mine"}
    assert "attempt 1" in shown.out
    assert "get_weather" in shown.out
    assert ledger.out.startswith("In the last 7 days the guardrails recovered ")
    assert "| tiny-tools" in table.out
    assert as_json["requests"]["requests"] == 2
    assert sum(row["calls"] for row in as_json["rows"] if row["tool"] == "get_weather") >= 2
    assert as_json["valid_with"]["value"] == 1.0


def test_no_prompt_response_or_key_is_stored(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    with daemon("--backend", "embedded", env=env) as running:
        guarded(running, authorization="Bearer sk-very-secret")
        until(lambda: bool(listed(running)), "the request is stored")

    with sqlite3.connect(tmp_path / "forge-proxy/runs.db") as database:
        dump = "\n".join(database.iterdump())
    assert "get_weather" in dump
    assert "Paris" not in dump
    assert "sk-very-secret" not in dump


def test_requests_survive_a_restart_and_a_daemon_that_was_killed(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    with daemon("--backend", "embedded", env=env) as running:
        guarded(running)  # stored when the daemon ends
    with daemon("--backend", "embedded", env=env) as running:
        assert len(listed(running)) == 1
        guarded(running)
        until(lambda: len(listed(running)) == 2, "it is stored")
        running.send_signal(signal.SIGKILL)
        running.wait()
    with daemon("--backend", "embedded", env=env) as running:
        assert len(listed(running)) == 2


def test_nothing_is_stored_where_the_settings_say_so(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path), "FORGE_PROXY_STORE__REQUESTS": "false"}
    with daemon("--backend", "embedded", env=env) as running:
        guarded(running)
        ended = ask(running, "requests")

    assert ended.code == 1
    assert "GET /admin/v1/requests: Not Found" in ended.err
    assert not (tmp_path / "forge-proxy/runs.db").exists()


def test_a_state_folder_that_cannot_be_written_costs_no_request(tmp_path: Path) -> None:
    (tmp_path / "forge-proxy").write_text("a file where the folder should be")
    with daemon("--backend", "embedded", env={"XDG_STATE_HOME": str(tmp_path)}) as running:
        guarded(running, 3)
        until(lambda: "requests not stored" in running.printed, "it is reported")
        answer = httpx.get(f"{running.url}/admin/v1/requests")

    assert answer.status_code == 503
    assert running.printed.count("requests not stored") <= 2  # once, and once for those that wait at the end
