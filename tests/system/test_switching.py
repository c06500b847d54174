"""Budgets and the model server switched over HTTP: what concurrent clients and the operator see."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.fakes.llama_server import Fake
from tests.fakes.processes import Process, daemon, until
from tests.system.asking import PATH, TOOL, JsonDict, ask, error, events, text
from tests.system.managed import over

ADMIN = "/admin/v1"
NO_ROOM = {"mode": "manual", "tokens": 666}
"""A window for which the fake server has no memory."""


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Fake, Process]]:
    fake = Fake(tmp_path_factory.mktemp("common"))
    with over(fake) as proxy:
        yield fake, proxy


@pytest.fixture
def fresh(common: tuple[Fake, Process]) -> tuple[Fake, Process]:
    """The daemon of this module with a newly started server."""
    fake, proxy = common
    fake.forget()
    backend(proxy, "restart")
    return common


def put_budget(proxy: Process, wish: JsonDict) -> httpx.Response:
    return httpx.put(f"{proxy.url}{ADMIN}/budget", json=wish, timeout=30)


def backend(proxy: Process, verb: str) -> JsonDict:
    """Return the state of the model server after the switch."""
    answer = httpx.post(f"{proxy.url}{ADMIN}/backend/{verb}", timeout=30)
    assert answer.status_code == 200, answer.text
    said: JsonDict = answer.json()["server"]
    return said


def look(proxy: Process, what: str) -> JsonDict:
    answer = httpx.get(f"{proxy.url}{ADMIN}/{what}", timeout=10)
    assert answer.status_code == 200, answer.text
    said: JsonDict = answer.json()
    return said


def queue_is(proxy: Process, **wanted: object) -> Callable[[], bool]:
    return lambda: wanted.items() <= look(proxy, "status")["queue"].items()


def sends(pool: ThreadPoolExecutor, proxy: Process, body: JsonDict) -> Future[httpx.Response]:
    return pool.submit(httpx.post, proxy.url + PATH, json=body, timeout=30)


def test_a_failed_switch_is_reverted_and_reported_and_loses_no_request(fresh: tuple[Fake, Process]) -> None:
    fake, proxy = fresh
    before = look(proxy, "budget")
    bodies = [ask("says", stream=stream, **tools) for stream in (False, True) for tools in ({}, {"tools": [TOOL]})]
    with ThreadPoolExecutor(6) as pool:
        running = sends(pool, proxy, ask("waits", stream=True))
        until(lambda: fake.asked("waits") == 1, "an answer is under way")
        switch = pool.submit(put_budget, proxy, NO_ROOM)
        until(queue_is(proxy, paused=True), "the switch has begun")
        asked = [sends(pool, proxy, body) for body in bodies]
        until(queue_is(proxy, waiting=4), "they wait for it")
        fake.go()
        refused = switch.result(30)
        answers = [future.result(30) for future in asked]

    said = error(refused)
    assert (refused.status_code, said["code"]) == (502, "budget_unchanged")
    assert "failed to allocate buffer for kv cache; the previous configuration runs again" in said["message"]
    assert text(events(running.result(0).text.splitlines())) == "one two three"
    assert [answer.status_code for answer in answers] == [200] * 4
    assert all("three" in answer.text for answer in answers)
    assert look(proxy, "budget") == before
    assert [("666" in start["flags"]) for start in fake.starts] == [False, True, False]


def test_a_stopped_server_rejects_requests_until_started_and_no_switch_starts_it(fresh: tuple[Fake, Process]) -> None:
    fake, proxy = fresh
    stopped = backend(proxy, "stop")
    answers = [httpx.post(proxy.url + PATH, json=ask("says", stream=stream), timeout=10) for stream in (False, True)]
    health = httpx.get(proxy.url + "/health")
    refused = put_budget(proxy, {"mode": "forge-fast"})
    still, starts = look(proxy, "backend")["server"], len(fake.starts)
    started = backend(proxy, "start")
    after = httpx.post(proxy.url + PATH, json=ask("says"), timeout=10)

    assert [server["state"] for server in (stopped, still, started)] == ["stopped", "stopped", "ready"]
    assert [(answer.status_code, error(answer)["code"]) for answer in answers] == [(503, "backend_down")] * 2
    told = "llama-server has been stopped; start it with `forge-proxy backend start`"
    assert error(answers[0])["message"] == health.json()["error"]["message"] == told
    assert answers[0].headers["x-should-retry"] == "false"
    assert (refused.status_code, error(refused)["code"]) == (502, "budget_unchanged")
    assert told in error(refused)["message"]
    assert (starts, len(fake.starts), after.status_code) == (1, 2, 200)


def test_stopping_lets_responses_finish_and_rejects_queued_requests(fresh: tuple[Fake, Process]) -> None:
    fake, proxy = fresh
    with ThreadPoolExecutor(3) as pool:
        running = sends(pool, proxy, ask("waits", stream=True))
        until(lambda: fake.asked("waits") == 1, "an answer is under way")
        stopping = pool.submit(backend, proxy, "stop")
        until(queue_is(proxy, paused=True), "it is being stopped")
        late = sends(pool, proxy, ask("says"))
        until(queue_is(proxy, waiting=1), "who comes waits")
        fake.go()

        assert text(events(running.result(30).text.splitlines())) == "one two three"
        assert stopping.result(30)["state"] == "stopped"
        assert error(late.result(30))["code"] == "backend_down"


def test_the_last_error_of_a_running_server_is_reported_as_past(fresh: tuple[Fake, Process]) -> None:
    _, proxy = fresh
    put_budget(proxy, NO_ROOM)

    server = look(proxy, "backend")["server"]

    assert server["state"] == "ready"
    assert server["detail"].startswith("last error: llama-server with ")


def test_the_status_is_returned_at_once_while_a_model_loads(fake: Fake) -> None:
    fake.behaves("loads when told")
    with over(fake, ready=False) as proxy:
        until(lambda: "one more layer" in look(proxy, "backend")["server"]["detail"], "it loads")
        seen = [look(proxy, what) for what in ("status", "budget", "backend", "backend/logs", "config")]
        (fake.folder / "loaded").touch()
        proxy.wait_for("ready")

    status, budget, *_ = seen
    assert status["backend"]["health"]["status"] == "loading"
    assert "one more layer" in status["backend"]["server"]["detail"]
    assert budget["tokens"] is None


def test_a_budget_set_while_the_model_loads_is_applied_afterwards(fake: Fake) -> None:
    fake.behaves("loads when told", "well")
    with over(fake, ready=False) as proxy:
        until(lambda: look(proxy, "backend")["server"]["state"] == "loading", "it loads")
        told = put_budget(proxy, {"mode": "forge-fast"})
        (fake.folder / "loaded").touch()
        until(lambda: look(proxy, "budget")["window"] == 2048, "it has the window")
        answer = httpx.post(proxy.url + PATH, json=ask("says"), timeout=30)

    assert (told.status_code, told.json()["tokens"]) == (200, None)
    assert told.json()["reason"] == "half of forge-full: the model server has not reported its window yet"
    assert (answer.status_code, len(fake.starts)) == (200, 2)


def test_a_prompt_over_an_enforced_budget_is_rejected_with_the_numbers(server: Process) -> None:
    long = [{"role": "user", "content": "word " * 1000}]
    bodies = {
        f"over {stream} {len(tools)}": {"stream": stream, "messages": long, **tools}
        for stream in (False, True)
        for tools in ({}, {"tools": [TOOL]})
    }
    with daemon("--backend-url", server.url) as proxy:
        budget = put_budget(proxy, {"mode": "manual", "tokens": 512}).json()
        answers = {
            user: httpx.post(proxy.url + PATH, json={**ask("says", user=user), **body}, timeout=10)
            for user, body in bodies.items()
        }
        (window,) = {card["max_context"] for card in httpx.get(proxy.url + "/v1/models").json()["data"]}

    said = {user: (answer.status_code, error(answer)) for user, answer in answers.items()}
    expected = (400, "context_length_exceeded", "messages")
    message = "This model's maximum context length is 512 tokens. However, your messages"
    assert (budget["enforced"], window) == (True, 512)
    assert {user: (status, one["code"], one["param"]) for user, (status, one) in said.items()} == dict.fromkeys(
        bodies, expected
    )
    assert [user for user, (_, one) in said.items() if not one["message"].startswith(message)] == []
    assert [user for user in bodies if user in server.printed] == []
