"""The admin API: what it shows, what it changes while requests run, and its error messages."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from forge_proxy.core.guardrails.policy import SWITCHES
from forge_proxy.settings import Settings, SettingsError
from tests.api.admin.world import ADMIN, JsonDict, Managed, error, world, written
from tests.api.test_mistakes import ASK, RIGHT
from tests.fakes.says import Said
from tests.folding import folded

CALL_AS_TEXT = Said(text='<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}}</tool_call>')


async def test_the_status_summarises_the_daemon() -> None:
    async with world() as client:
        status = (await client.get(f"{ADMIN}/status", headers={"x-request-id": "mine"})).json()

    assert status["backend"]["health"] == {"status": "ok", "detail": ""}
    assert (status["backend"]["managed"], status["backend"]["unmanaged_reason"]) == (False, "a test started it")
    assert status["budget"]["reason"] == "the model server does not report its window, so nothing is enforced"
    background = {"running": 0, "waiting": 0, "reserved_slots": None, "blocked_by": None}
    assert status["queue"] == {
        "slots": None, "running": 0, "waiting": 0, "limit": 100, "paused": False, "background": background
    }  # fmt: skip
    assert status["memory"] == {"used_mb": 0, "limit_mb": 100}
    assert status["hardware"]["cores"] >= 1


async def test_responses_have_the_request_id() -> None:
    async with world() as client:
        answer = await client.get(f"{ADMIN}/budget", headers={"x-request-id": "mine"})

    assert answer.headers["x-request-id"] == "mine"


async def test_a_budget_is_switched_and_reported_as_the_window() -> None:
    async with world() as client:
        switched = await client.put(f"{ADMIN}/budget", json={"mode": "manual", "tokens": 1000})
        models = (await client.get("/v1/models")).json()["data"]
        shown = (await client.get(f"{ADMIN}/models")).json()["data"]

    budget = {"mode": "manual", "tokens": 1000, "reason": "1000 tokens are configured", "window": None}
    budget["because"] = budget["reason"]
    assert switched.json() == {**budget, "enforced": True, "overflow": "reject"}
    assert models[0]["max_model_len"] == 1000
    assert shown == [{"id": "scripted", "budget": switched.json(), "capabilities": None}]


async def test_the_overflow_policy_stays_if_the_request_omits_it() -> None:
    async with world(budget={"overflow": "forward"}) as client:
        switched = (await client.put(f"{ADMIN}/budget", json={"mode": "forge-full"})).json()

    assert (switched["mode"], switched["overflow"]) == ("forge-full", "forward")


@folded
@pytest.mark.parametrize(
    ("method", "path", "body", "field", "words"),
    [
        ("PUT", "/budget", {"mode": "half"}, "mode", "'forge-fast'"),
        ("PUT", "/budget", {"mode": "manual"}, "body", "mode manual needs tokens"),
        ("PUT", "/budget", {"mode": "manual", "tokens": 3}, "tokens", "256"),
        ("PUT", "/budget", {"mode": "backend", "overflow": "compress"}, "overflow", "compact"),
        ("PUT", "/budget", {"mode": "backend", "token": 3}, "token", "no such field; did you mean tokens?"),
        ("PUT", "/budget", {}, "mode", "required"),
        (
            "PATCH",
            "/guardrails",
            {"enabled": {"rescu": False}},
            "enabled.rescu",
            "no such field; did you mean enabled.rescue?",
        ),
        ("PATCH", "/guardrails", {"rescue": False}, "rescue", "no such field; did you mean enabled.rescue?"),
        ("PATCH", "/guardrails", {"max_retrys": 1}, "max_retrys", "no such field; did you mean max_retries?"),
        (
            "PATCH",
            "/guardrails",
            {"enabled": {"validate": "perhaps"}},
            "enabled.validate",
            "expected true or false (on or off)",
        ),
        ("PATCH", "/guardrails", {"max_retries": 11}, "max_retries", "10"),
        ("PATCH", "/guardrails", {"max_retries": None}, "max_retries", "integer"),
        ("PUT", "/compaction", {"strategy": "tired"}, "strategy", "tiered"),
        ("PUT", "/compaction", {"threshold": 1.5}, "threshold", "1"),
        ("PUT", "/compaction", {"keep_recent": 0}, "keep_recent", "1"),
        ("POST", "/backend/model", {"model": ""}, "model", "a length of at least 1"),
        ("GET", "/backend/logs?lines=many", None, "lines", "integer"),
        ("GET", "/backend/logs?lines=0", None, "lines", "1"),
    ],
)
async def test_a_wrong_field_is_a_400_that_names_it(
    client: httpx.AsyncClient, method: str, path: str, body: JsonDict | None, field: str, words: str
) -> None:
    answer = await client.request(method, ADMIN + path, json=body)

    assert error(answer) == (400, None, field)
    assert words in answer.json()["error"]["message"]


async def test_a_body_that_is_not_json_is_a_400() -> None:
    async with world() as client:
        answer = await client.put(f"{ADMIN}/budget", content=b'{"mode":', headers={"content-type": "application/json"})

    assert error(answer) == (400, None, "body")


async def test_guardrails_are_changed_from_the_next_request_on() -> None:
    async with world(CALL_AS_TEXT, CALL_AS_TEXT) as client:
        before = await client.post("/v1/chat/completions", json=ASK)
        changed = (
            await client.patch(f"{ADMIN}/guardrails", json={"enabled": {"rescue": False, "retry": False}})
        ).json()
        after = await client.post("/v1/chat/completions", json=ASK)

    assert before.headers["x-forge-outcome"] == "rescued"
    assert changed["enabled"] == {**dict.fromkeys(SWITCHES, True), "rescue": False, "retry": False}
    assert changed["max_retries"] == 3
    assert after.json()["choices"][0]["message"].get("tool_calls") is None


@folded
@pytest.mark.parametrize("path", ["start", "stop", "restart", "model", "logs"])
async def test_an_unmanaged_server_cannot_be_controlled(client: httpx.AsyncClient, path: str) -> None:
    method = "GET" if path == "logs" else "POST"
    answer = await client.request(method, f"{ADMIN}/backend/{path}", json={"model": "x"})

    assert error(answer) == (409, "backend_not_managed", None)
    assert answer.json()["error"]["message"] == "this backend is not managed by forge-proxy: a test started it"


async def test_a_managed_server_is_stopped_started_restarted_and_switched_to_another_model() -> None:
    managed = Managed()
    async with world(control=managed) as client:
        stopped = (await client.post(f"{ADMIN}/backend/stop")).json()["server"]
        started = (await client.post(f"{ADMIN}/backend/start")).json()["server"]
        await client.post(f"{ADMIN}/backend/restart")
        other = (await client.post(f"{ADMIN}/backend/model", json={"model": "second"})).json()
        unknown = await client.post(f"{ADMIN}/backend/model", json={"model": "third"})
        logs = (await client.get(f"{ADMIN}/backend/logs", params={"lines": 2})).json()

    assert managed.did == ["stop", "start", "restart"]
    assert (stopped["state"], started["state"]) == ("stopped", "ready")
    assert (other["managed"], other["server"]["model"], other["server"]["pid"]) == (True, "second", 4711)
    assert error(unknown) == (404, "model_not_found", None)
    assert logs == {"lines": ["line 3", "line 4"]}


async def test_the_settings_are_shown_without_their_secrets() -> None:
    secret = {"url": "http://user:hunter2@scripted", "api_key": "sk-hunter3"}
    async with world(backend=secret, server={"admin_keys": ["sk-hunter4"]}) as client:
        await client.patch(f"{ADMIN}/guardrails", json={"max_retries": 1}, headers={"x-api-key": "sk-hunter4"})
        answer = await client.get(f"{ADMIN}/config", headers={"x-api-key": "sk-hunter4"})

    assert "hunter" not in answer.text
    assert answer.json()["backend"]["url"] == "http://scripted"
    assert answer.json()["guardrails"]["max_retries"] == 1


async def test_a_reload_changes_what_can_be_changed_and_names_the_rest() -> None:
    said: JsonDict = {"guardrails": {"max_retries": 1}, "budget": {"mode": "manual", "tokens": 500}}
    async with world(read=written(**said, server={"port": 9000, "api_keys": ["sk-new"]})) as client:
        done = (await client.post(f"{ADMIN}/reload")).json()
        without = await client.get(f"{ADMIN}/budget")
        budget = (await client.get(f"{ADMIN}/budget", headers={"x-api-key": "sk-new"})).json()
        again = (await client.post(f"{ADMIN}/reload", headers={"x-api-key": "sk-new"})).json()

    applied = {"server.api_keys", "budget.mode", "budget.tokens", "guardrails.max_retries"}
    assert (set(done["applied"]), done["needs_restart"]) == (applied, ["server.port"])
    assert without.status_code == 401
    assert budget["tokens"] == 500
    assert again == {"applied": [], "needs_restart": ["server.port"]}


BEFORE = {"changed": {"ollama": "y"}, "gone": {"ollama": "z"}}
AFTER = {"changed": {"ollama": "y", "context": 4096}, "new": {"ollama": "z"}}


async def test_a_reload_names_the_models_that_are_new_changed_or_gone() -> None:
    now, then = ({**models, "same": {"ollama": "x"}} for models in (BEFORE, AFTER))

    async with world(read=written(models=then), models=now) as client:
        done = (await client.post(f"{ADMIN}/reload")).json()

    assert sorted(done["needs_restart"]) == ["models.changed.context", "models.gone", "models.new"]


async def test_a_reload_reverts_changes_made_over_the_api() -> None:
    async with world() as client:
        await client.patch(f"{ADMIN}/guardrails", json={"on_loop": "report"})
        done = (await client.post(f"{ADMIN}/reload")).json()
        now = (await client.get(f"{ADMIN}/guardrails")).json()

    assert (done["applied"], now["on_loop"]) == (["guardrails.on_loop"], "cut")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"guardrails": {"max_retries": 1, "on_lop": "cut"}}, "did you mean guardrails.on_loop?"),
        ({"guardrails": {"max_retries": 1}, "server": {"api_keys_file": "/nowhere"}}, "server.api_keys_file /nowhere"),
    ],
)
async def test_a_reload_with_a_mistake_changes_nothing(said: JsonDict, words: str) -> None:
    async with world(read=written(**said)) as client:
        answer = await client.post(f"{ADMIN}/reload")
        now = (await client.get(f"{ADMIN}/guardrails")).json()

    assert error(answer) == (400, "wrong_settings", None)
    assert words in answer.json()["error"]["message"]
    assert now["max_retries"] == 3


async def test_a_reload_does_not_take_the_last_key_of_a_public_address() -> None:
    keys: JsonDict = {"server": {"host": "0.0.0.0", "api_keys": ["sk-a"], "admin_keys": ["sk-b"]}}
    async with world(read=written(server={"host": "0.0.0.0"}), **keys) as client:
        answer = await client.post(f"{ADMIN}/reload", headers={"x-api-key": "sk-b"})

    assert error(answer) == (400, "wrong_settings", None)


async def test_a_settings_file_that_cannot_be_read_is_reported() -> None:
    def read() -> Settings:
        raise SettingsError("forge-proxy.yaml: No such file or directory")

    async with world(read=read) as client:
        answer = await client.post(f"{ADMIN}/reload")

    assert "No such file" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("server", "key", "status", "code"),
    [
        ({}, None, 200, None),
        ({"api_keys": ["sk-user"]}, None, 401, "invalid_api_key"),
        ({"api_keys": ["sk-user"]}, "sk-user", 200, None),
        ({"admin_keys": ["sk-admin"]}, None, 401, "invalid_api_key"),
        ({"admin_keys": ["sk-admin"]}, "sk-admin", 200, None),
        ({"admin_keys": ["sk-admin"], "api_keys": ["sk-user"]}, "sk-user", 401, "invalid_api_key"),
        ({"host": "0.0.0.0", "api_keys": ["sk-user"]}, "sk-user", 403, "admin_closed"),
        ({"host": "0.0.0.0", "api_keys": ["sk-user"], "admin_keys": ["sk-admin"]}, "sk-admin", 200, None),
        ({"host": "0.0.0.0", "allow_public_without_keys": True}, None, 200, None),
        ({"host": "::1"}, None, 200, None),
        ({"host": "some-name"}, None, 403, "admin_closed"),
    ],
)
async def test_which_keys_open_the_admin_api(
    server: dict[str, Any], key: str | None, status: int, code: str | None
) -> None:
    async with world(server=server) as client:
        answer = await client.get(f"{ADMIN}/status", headers={"x-api-key": key} if key else {})

    assert answer.status_code == status
    if code:
        assert error(answer)[1] == code


async def test_an_admin_key_opens_nothing_else() -> None:
    async with world(RIGHT, server={"admin_keys": ["sk-admin"], "api_keys": ["sk-user"]}) as client:
        answer = await client.post("/v1/chat/completions", json=ASK, headers={"x-api-key": "sk-admin"})

    assert error(answer) == (401, "invalid_api_key", None)


async def test_a_web_page_of_another_origin_cannot_use_the_admin_api() -> None:
    async with world() as client:
        answer = await client.post(f"{ADMIN}/reload", headers={"origin": "https://evil.example.org"})

    assert error(answer) == (403, "origin_not_allowed", None)
