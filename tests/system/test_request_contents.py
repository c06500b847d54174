"""Stored texts of requests, over a real daemon: shown, replayed, exported, and run as golden tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.test_mistakes import ASK, PARIS_TEXT, RIGHT
from tests.fakes.processes import ROOT, Process, command, daemon
from tests.fakes.says import Said
from tests.transcripts.replies import openai_replies
from tests.transcripts.server import ScriptedServer, scripted_server

IN_TEXT = f'Sure.\n<tool_call>\n{{"name": "get_weather", "arguments": {PARIS_TEXT}}}\n</tool_call>'
KEY = {"authorization": "Bearer sk-admin"}
CLIENT = {"authorization": "Bearer sk-client"}
UNKNOWN = Said("=== not a heading\n--- said\nfoo", calls=(("get_wether_report_now", "{}"),))


@pytest.fixture(scope="module")
def server() -> Generator[ScriptedServer]:
    with scripted_server() as running:
        yield running


@pytest.fixture(scope="module")
def running(server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[Process]:
    folder = tmp_path_factory.mktemp("contents")
    settings = folder / "forge-proxy.yaml"
    settings.write_text("server: {admin_keys: [sk-admin], api_keys: [sk-client]}\nstore: {content: on}\n")
    env = {"XDG_STATE_HOME": str(folder)}
    with daemon(
        "--backend", "openai", "--backend-url", f"{server.url}/v1", "--config", str(settings), env=env
    ) as process:
        yield process


def ask(running: Process, server: ScriptedServer, *said: Said, body: dict[str, Any] = ASK, **headers: str) -> str:
    """Send a request that the model answers like this. Returns its id, once it is stored."""
    server.set_script(openai_replies(said, stream=False))
    answer = httpx.post(f"{running.url}/v1/chat/completions", json=body, headers={**CLIENT, **headers}, timeout=60)
    name = answer.headers["x-request-id"]
    end = time.monotonic() + 60
    while httpx.get(f"{running.url}/admin/v1/requests/{name}", headers=KEY).status_code == 404:
        assert time.monotonic() < end, "it is not stored"
        time.sleep(0.05)
    return name


def admin(running: Process, method: str, path: str, **options: Any) -> httpx.Response:
    return httpx.request(method, f"{running.url}/admin/v1/{path}", headers=KEY, timeout=60, **options)


def test_the_text_of_each_attempt_is_shown(running: Process, server: ScriptedServer) -> None:
    name = ask(running, server, UNKNOWN, RIGHT)

    content = admin(running, "GET", f"requests/{name}").json()["content"]

    assert content["request"]["messages"] == ASK["messages"]
    first, second = content["attempts"]
    assert (first["verdict"], first["fault"]) == ("retried", "unknown_tool")
    assert first["replies"][0]["calls"][0]["name"] == "get_wether_report_now"
    assert second["call"]["kept_messages"] == len(ASK["messages"])
    assert second["call"]["messages"] == first["correction"] == server.received[1][1]["messages"][1:]
    assert content["received"][0]["calls"][0]["name"] == "get_weather"


def test_only_admin_keys_see_texts(running: Process, server: ScriptedServer) -> None:
    name = ask(running, server, RIGHT)

    for method, path in (("GET", ""), ("POST", "/replay"), ("GET", "/export")):
        for headers in ({}, CLIENT):
            url = f"{running.url}/admin/v1/requests/{name}{path}"
            assert httpx.request(method, url, headers=headers).status_code == 401


def test_a_replay_of_a_rescued_request_without_guardrails_shows_the_raw_failure(
    running: Process, server: ScriptedServer
) -> None:
    name = ask(running, server, Said(IN_TEXT))
    server.set_script(openai_replies((Said(IN_TEXT),), stream=False))

    sides = admin(running, "POST", f"requests/{name}/replay", json={"guardrails": "off"}).json()

    original, replay = sides["original"], sides["replay"]
    assert (original["result"], replay["result"]) == ("rescued", "passthrough")
    assert original["received"][0]["calls"][0]["name"] == "get_weather"
    assert original["attempts"][0]["replies"][0]["text"] == IN_TEXT
    assert (replay["received"][0]["text"], replay["received"][0]["calls"]) == (IN_TEXT, [])
    assert replay["request_id"] != original["request_id"] == name


def test_a_replay_has_other_sampling_values_and_another_model(running: Process, server: ScriptedServer) -> None:
    name = ask(running, server, RIGHT, body={**ASK, "temperature": 0.7})
    server.set_script(
        openai_replies(
            (
                UNKNOWN,
                RIGHT,
            ),
            stream=False,
        )
    )
    changes = {"sampling": {"temperature": 0, "seed": 3}, "model": "scripted"}

    replay = admin(running, "POST", f"requests/{name}/replay", json=changes).json()["replay"]

    sent = server.received[0][1]
    assert (sent["temperature"], sent["seed"], sent["messages"]) == (0, 3, ASK["messages"])
    assert (replay["result"], [one["fault"] for one in replay["attempts"]]) == ("retried", ["unknown_tool", None])


def test_a_replay_that_fails_shows_the_error(running: Process, server: ScriptedServer) -> None:
    name = ask(running, server, RIGHT)
    server.set_script([])

    replay = admin(running, "POST", f"requests/{name}/replay", json={}).json()["replay"]

    assert replay["result"] == "failed"
    assert "the script is over" in replay["error"]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"guardrails": "everything"}, "header x-forge-guardrails"),
        ({"sampling": {"temperature": 5}}, "sampling.temperature"),
        ({"temprature": 1}, "temprature"),
    ],
)
def test_a_wrong_change_is_a_400(running: Process, server: ScriptedServer, changes: dict[str, Any], param: str) -> None:
    name = ask(running, server, RIGHT)

    answer = admin(running, "POST", f"requests/{name}/replay", json=changes)

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_an_exported_request_runs_as_a_golden_test_unchanged(
    running: Process, server: ScriptedServer, tmp_path: Path
) -> None:
    name = ask(running, server, UNKNOWN, Said(IN_TEXT))
    golden = tmp_path / "golden"
    golden.mkdir()
    exported = golden / "exported.txt"

    ended = command("requests", "export", name, "--url", running.url, "--key", "sk-admin", "-o", str(exported))

    assert ended.code == 0, ended.err
    assert exported.read_bytes() == admin(running, "GET", f"requests/{name}/export").content
    assert "--- said\n\\=== not a heading\n\\--- said\nfoo\n" in exported.read_text()
    shutil.copy(ROOT / "tests/core/rescue/test_golden.py", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"),
         "--rootdir", str(tmp_path), "-o", "addopts=", str(tmp_path / "test_golden.py")],
        cwd=ROOT, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    changed = exported.read_text().replace('get_weather {"city"', 'get_other {"city"')
    exported.write_text(changed)
    assert command("rescue", str(exported)).code == 1


def test_the_command_analyzes_an_exported_request(running: Process, server: ScriptedServer, tmp_path: Path) -> None:
    name = ask(running, server, Said(IN_TEXT))
    exported = tmp_path / "exported.txt"
    exported.write_bytes(admin(running, "GET", f"requests/{name}/export").content)

    ended = command("rescue", str(exported))

    assert ended.code == 0, ended.out + ended.err
    assert "parsed as recorded" in ended.out
    assert "arguments   " in ended.out


def test_a_request_without_text_cannot_be_exported(running: Process, server: ScriptedServer) -> None:
    name = ask(running, server, RIGHT)

    answer = admin(running, "GET", f"requests/{name}/export")

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "content_not_stored")
    assert "no attempt has text" in answer.json()["error"]["message"]


def test_the_replay_command_prints_both_sides(running: Process, server: ScriptedServer) -> None:
    name = ask(running, server, Said(IN_TEXT))
    server.set_script(openai_replies((Said("Never."),), stream=False))

    ended = command("requests", "replay", name, "--guardrails", "off", "--url", running.url, "--key", "sk-admin")

    assert ended.code == 0, ended.err
    original, _, replay = ended.out.partition("=== replay")
    assert "=== original" in original
    assert f"get_weather({PARIS_TEXT})" in original
    assert "Never." in replay


def test_replays_are_not_counted_in_the_ledger(running: Process, server: ScriptedServer) -> None:
    name = ask(running, server, Said(IN_TEXT))
    before = admin(running, "GET", "ledger").json()["requests"]["requests"]
    server.set_script(openai_replies((Said(IN_TEXT),), stream=False))
    replayed = admin(running, "POST", f"requests/{name}/replay", json={}).json()["replay"]["request_id"]
    end = time.monotonic() + 60
    while (shown := admin(running, "GET", f"requests/{replayed}")).status_code == 404:
        assert time.monotonic() < end
        time.sleep(0.05)

    assert (shown.json()["surface"], shown.json()["result"]) == ("replay", "rescued")
    assert admin(running, "GET", "ledger").json()["requests"]["requests"] == before


def test_without_a_stored_text_a_replay_is_a_409(server: ScriptedServer, tmp_path: Path) -> None:
    with daemon(
        "--backend", "openai", "--backend-url", f"{server.url}/v1", env={"XDG_STATE_HOME": str(tmp_path)}
    ) as process:
        server.set_script(openai_replies((RIGHT,), stream=False))
        answer = httpx.post(f"{process.url}/v1/chat/completions", json=ASK, timeout=60)
        url = f"{process.url}/admin/v1/requests/{answer.headers['x-request-id']}"
        end = time.monotonic() + 60
        while (shown := httpx.get(url)).status_code == 404:
            assert time.monotonic() < end
            time.sleep(0.05)

        assert shown.json()["content"] is None
        for refused in (httpx.post(f"{url}/replay", json={}), httpx.get(f"{url}/export")):
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "content_not_stored")
            assert "set store.content to on" in refused.json()["error"]["message"]
        assert httpx.post(f"{process.url}/admin/v1/requests/unknown/replay", json={}).status_code == 404
