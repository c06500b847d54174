"""More clients than the one slot of a model server: requests are queued fairly and leave no trace if cancelled."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from tests.fakes.processes import Process, daemon, model_server, until
from tests.system.asking import PATH, TOOL, ask, error, events, text
from tests.system.test_leaving import sent
from tests.system.test_stopping import refuses

LIMIT = 3
SETTINGS = {
    "FORGE_PROXY_SERVER__FIRST_EVENT_SECONDS": "0.1",
    "FORGE_PROXY_SERVER__KEEPALIVE_SECONDS": "0.1",
    "FORGE_PROXY_BACKEND__QUEUE_LIMIT": str(LIMIT),
}
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
guarded_too = pytest.mark.parametrize("tools", [{}, {"tools": [TOOL]}], ids=["passed-through", "guarded"])


@pytest.fixture(scope="module")
def server() -> Generator[Process]:
    with model_server(slots=1) as process:
        yield process


@pytest.fixture(scope="module")
def proxy(server: Process) -> Generator[Process]:
    with daemon("--backend-url", server.url, env=SETTINGS) as process:
        yield process


@contextmanager
def held(proxy: Process, server: Process, user: str) -> Generator[None]:
    """A request that does not end occupies the one slot."""
    with sent(proxy, json.dumps(ask("hangs", user=user)).encode()):
        server.wait_for("asked", user=user)
        yield


def queued(proxy: Process, body: dict[str, object], key: str = "none", request_id: str = "queued") -> socket.socket:
    """A connection whose request has been received, as the responses to later ones show."""
    headers = f"Authorization: Bearer {key}\r\nX-Request-Id: {request_id}\r\n"
    connection = sent(proxy, json.dumps(body).encode(), headers=headers)
    for _ in range(2):
        httpx.get(proxy.url + "/healthz")
    return connection


def asked(server: Process, *users: str) -> list[str]:
    """Return those of these requests that the server received, in order, once it has logged a later request."""
    later = f"later than {users}"
    httpx.post(f"{server.url}{PATH}", json=ask("says", user=later))
    server.wait_for("asked", user=later)
    said = [json.loads(line) for line in server.printed.splitlines()]
    return [line["user"] for line in said if line["event"] == "asked" and line["user"] in users]


@both
@guarded_too
def test_a_client_that_disconnects_while_queued_never_reaches_the_server(
    server: Process, proxy: Process, stream: bool, tools: dict[str, object]
) -> None:
    name = f"{stream}-{len(tools)}"
    with held(proxy, server, f"holder-{name}"):
        with queued(proxy, ask("says", user=f"leaver-{name}", stream=stream, **tools), request_id=f"leaver-{name}"):
            pass
        left = proxy.wait_for("abandoned", request_id=f"leaver-{name}")
    after = httpx.post(proxy.url + PATH, json=ask("says", user=f"after-{name}"))

    assert after.status_code == 200
    server.wait_for("asked", user=f"after-{name}")
    assert 0 < left["queued_ms"] <= 1000 * left["seconds"] + 1  # both are rounded
    assert asked(server, f"leaver-{name}", f"after-{name}") == [f"after-{name}"]


def test_clients_take_turns_by_their_keys(server: Process, proxy: Process) -> None:
    users = ["a1", "a2", "a3", "b1"]
    with ExitStack() as waiting:
        with held(proxy, server, "before them"):
            connections = [
                waiting.enter_context(queued(proxy, ask("says", user=user), key=f"key-{user[0]}", request_id=user))
                for user in users
            ]
        answers = [connection.recv(12) for connection in connections]

    assert proxy.wait_for("backend slots")["slots"] == 1
    assert answers == [b"HTTP/1.1 200"] * 4
    assert asked(server, *users) == ["a1", "b1", "a2", "a3"]
    assert proxy.wait_for("answered", request_id="a3")["queued_ms"] > 0
    assert "key-a" not in proxy.printed


@both
def test_a_full_queue_is_a_429_with_retry_after(server: Process, proxy: Process, stream: bool) -> None:
    with ExitStack() as waiting:
        waiting.enter_context(held(proxy, server, f"holder {stream}"))
        for number in range(LIMIT):
            waiting.enter_context(queued(proxy, ask("says", user=f"{stream} {number}")))

        refused = httpx.post(
            proxy.url + PATH, json=ask("says", stream=stream), headers={"Authorization": "Bearer none"}
        )
        others = [httpx.get(proxy.url + path).status_code for path in ("/v1/models", "/readyz", "/health")]

    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    said = error(refused)
    assert (said["type"], said["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert f"retry in {refused.headers['retry-after']} s" in said["message"]
    assert others == [200] * 3


@guarded_too
def test_a_stream_that_waits_is_kept_alive_until_it_has_its_turn(
    server: Process, proxy: Process, tools: dict[str, object]
) -> None:
    user = f"streamed {len(tools)}"
    with ExitStack() as holding:
        holding.enter_context(held(proxy, server, f"holder {user}"))
        body = ask("says", stream=True, user=user, **tools)
        with httpx.stream("POST", proxy.url + PATH, json=body, timeout=20) as response:
            lines = response.iter_lines()
            kept = [next(line for line in lines if line) for _ in range(2)]
            before = asked(server, user)
            holding.close()
            rest = events(lines)

    assert response.status_code == 200
    assert [json.loads(event)["choices"][0]["delta"] for event in events(kept)] == [{}, {}]
    assert before == []
    assert text(rest) == "one two three"
    assert rest[-1] == "[DONE]"


def test_a_retried_request_keeps_its_slot(server: Process, proxy: Process) -> None:
    tool = {**TOOL, "function": {"name": "get_weather", "parameters": {"type": "object", "required": ["city"]}}}
    with ExitStack() as waiting:
        with held(proxy, server, "before both"):
            bodies = (ask("says", user="again", tools=[tool], tool_choice="required"), ask("says", user="next"))
            connections = [waiting.enter_context(queued(proxy, body)) for body in bodies]
        ends = [connection.recv(12) for connection in connections]

    assert ends == [b"HTTP/1.1 502", b"HTTP/1.1 200"]
    assert asked(server, "again", "next") == ["again"] * 4 + ["next"]


@both
def test_queued_requests_are_rejected_when_the_daemon_stops(server: Process, stream: bool) -> None:
    user = f"stopped {stream}"
    settings = {"FORGE_PROXY_SERVER__DRAIN_SECONDS": "1"}
    with (
        daemon("--backend-url", server.url, env=settings) as proxy,
        held(proxy, server, f"holder {user}"),
        queued(proxy, ask("says", user=user, stream=stream)) as waiting,
    ):
        proxy.send_signal(signal.SIGTERM)
        code = proxy.wait()
        answer = waiting.recv(10_000)

    assert code == 0
    assert answer.startswith(b"HTTP/1.1 503")
    assert b'"code":"stopping"' in answer
    assert asked(server, user) == []
    assert "Traceback" not in proxy.printed


def test_queued_requests_are_answered_if_the_drain_time_allows(server: Process) -> None:
    with daemon("--backend-url", server.url) as proxy, ExitStack() as holding:
        holding.enter_context(held(proxy, server, "holder while it ends"))
        with queued(proxy, ask("says", user="drained")) as waiting:
            proxy.send_signal(signal.SIGTERM)
            until(lambda: refuses(proxy.url), "the daemon stops accepting")
            holding.close()
            answer = waiting.recv(12)
        code = proxy.wait()

    assert (answer, code) == (b"HTTP/1.1 200", 0)


@pytest.mark.parametrize(("slots", "at_once"), [("2", 2), ("auto", 1)])
def test_the_slots_come_from_the_settings_or_else_from_the_server(server: Process, slots: str, at_once: int) -> None:
    env = {"FORGE_PROXY_BACKEND__SLOTS": slots, "FORGE_PROXY_BACKEND__QUEUE_LIMIT": "0"}
    with daemon("--backend-url", server.url, env=env) as proxy, ExitStack() as holding:
        for number in range(at_once):
            holding.enter_context(held(proxy, server, f"{slots} {number}"))
        refused = httpx.post(proxy.url + PATH, json=ask("says"))

    assert refused.status_code == 429
