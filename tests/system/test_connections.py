"""Slow, idle, pipelined and numerous connections to a real daemon."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Generator
from contextlib import ExitStack
from http.client import HTTPResponse

import httpx
import pytest

from tests.fakes.processes import Process, daemon, until
from tests.system.asking import PATH, ask
from tests.system.test_door import BODY, answer, connected, post

TIMEOUTS = {"FORGE_PROXY_SERVER__HEADER_TIMEOUT_SECONDS": "1", "FORGE_PROXY_SERVER__BODY_TIMEOUT_SECONDS": "1"}
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def impatient(server: Process) -> Generator[Process]:
    with daemon("--backend-url", server.url, env=TIMEOUTS) as process:
        yield process


@pytest.mark.parametrize(
    "head", [GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", GET + b"\r\n"], ids=["h2c", "plain"]
)
def test_500_pipelined_requests_are_all_answered(proxy: Process, head: bytes) -> None:
    with connected(proxy) as connection:
        connection.sendall(head * 499 + GET + b"Connection: close\r\n\r\n")
        said = b"".join(iter(lambda: connection.recv(65536), b""))

    assert said.count(b"HTTP/1.1 200 OK") == 500
    assert "Traceback" not in proxy.printed


def test_thousands_of_pipelined_requests_end_the_connection(proxy: Process) -> None:
    with connected(proxy) as connection:
        connection.sendall((GET + b"\r\n") * 4000)
        said = b"".join(iter(lambda: _received(connection), b""))

    assert said.count(b"HTTP/1.1 200 OK") < 4000
    assert httpx.get(f"{proxy.url}/healthz").status_code == 200


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except ConnectionResetError:
        return b""


def test_a_head_of_a_hundred_headers_is_read_and_one_more_is_a_431(proxy: Process) -> None:
    heads = [GET + b"a:b\r\n" * number + b"\r\n" for number in (99, 100)]
    answers: list[tuple[int, bytes]] = []
    for head in heads:
        with connected(proxy) as connection:
            connection.sendall(head)
            answers.append(answer(connection))

    assert [status for status, _ in answers] == [200, 431]
    assert b"more than 100 headers" in answers[1][1]


CUT_SHORT = {
    "head": (GET, "server.header_timeout_seconds"),
    "first word": (b"GET ", "server.header_timeout_seconds"),
    "body": (post("Content-Length: 100") + b'{"model"', "server.body_timeout_seconds"),
    "chunk": (post("Transfer-Encoding: chunked") + b"5\r\nabc", "server.body_timeout_seconds"),
}
"""Requests that do not arrive, and the setting with the time limit."""


def test_a_request_that_does_not_arrive_is_a_408(impatient: Process) -> None:
    """All at once: the daemon takes seconds to end each connection."""
    with ExitStack() as stack:
        connections = {name: stack.enter_context(connected(impatient)) for name in CUT_SHORT}
        for name, connection in connections.items():
            connection.sendall(CUT_SHORT[name][0])
        answers = {name: answer(connection) for name, connection in connections.items()}
        rest = {name: connection.recv(10) for name, connection in connections.items()}

    errors = {name: (status, json.loads(said)["error"]) for name, (status, said) in answers.items()}
    assert {name: (status, error["code"]) for name, (status, error) in errors.items()} == dict.fromkeys(
        CUT_SHORT, (408, "request_timeout")
    )
    assert [name for name, (_, setting) in CUT_SHORT.items() if setting not in errors[name][1]["message"]] == []
    assert rest == dict.fromkeys(CUT_SHORT, b"")


def test_an_idle_new_connection_is_closed_without_a_response(impatient: Process) -> None:
    with connected(impatient) as connection:
        assert connection.recv(10) == b""


def test_line_breaks_do_not_keep_a_connection_open(impatient: Process) -> None:
    with connected(impatient) as connection:
        connection.sendall(GET + b"\r\n")
        answer(connection)
        connection.sendall(b"\r\n")

        assert _received(connection) == b""


def test_a_slow_body_is_read_to_its_end(impatient: Process) -> None:
    step = len(BODY) // 4 + 1
    with connected(impatient) as connection:
        connection.sendall(post(f"Content-Length: {len(BODY)}"))
        for at in range(0, len(BODY), step):
            time.sleep(0.6)  # 2.4 s in all: each piece within the limit
            connection.sendall(BODY[at : at + step])

        assert answer(connection)[0] == 200


def test_a_response_slower_than_the_limits_is_not_cut(impatient: Process) -> None:
    body = json.dumps(ask("stalls", stream=True)).encode()
    with connected(impatient) as connection:
        connection.sendall(post(f"Content-Length: {len(body)}") + body)
        while b'"one "' not in connection.recv(4096):
            pass
        connection.settimeout(2)  # twice the limits

        with pytest.raises(TimeoutError):
            connection.recv(4096)


def test_hundreds_of_slow_heads_do_not_lock_honest_clients_out(server: Process) -> None:
    words = ("256", "serve", "--port", "0", "--backend-url", server.url)
    process = Process("tests.fakes.few_descriptors", *words, forked=True)
    try:
        process.url = str(process.wait_for("listening")["url"]).removesuffix("/v1")
        with ExitStack() as stack:
            for _ in range(300):
                stack.enter_context(connected(process)).sendall(GET)
            statuses = [httpx.post(f"{process.url}{PATH}", json=ask("says")).status_code for _ in range(20)]

        assert statuses == [200] * 20
        assert "limit of open files" in process.wait_for("too many connections", level="warning")["error"]
        assert process.printed.count("too many connections") < 5
    finally:
        process.stop()


def test_a_new_connection_gets_a_503_while_all_others_are_being_served(server: Process) -> None:
    words = ("64", "serve", "--port", "0", "--backend-url", server.url)
    process = Process("tests.fakes.few_descriptors", *words, forked=True)
    body = json.dumps(ask("stalls", stream=True)).encode()
    try:
        process.url = str(process.wait_for("listening")["url"]).removesuffix("/v1")
        with ExitStack() as stack:
            for _ in range(8):
                stalling = stack.enter_context(connected(process))
                stalling.sendall(post(f"Content-Length: {len(body)}") + body)
                HTTPResponse(stalling).begin()
            refused = HTTPResponse(stack.enter_context(connected(process)))
            refused.begin()
            said = refused.read()

        assert (refused.status, json.loads(said)["error"]["code"]) == (503, "too_many_connections")
        assert refused.headers["retry-after"] == "1"
        until(lambda: httpx.get(f"{process.url}/healthz").status_code == 200, "there is room again")
    finally:
        process.stop()
