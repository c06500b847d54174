"""Hostile requests: each gets a clear error, never a 500, and other clients are not affected."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Generator
from http.client import HTTPException, HTTPResponse

import httpx
import pytest

from tests.fakes.processes import Process, daemon
from tests.system.asking import PATH, TOOL, ask
from tests.system.test_door import BODY, answer, chunked, connected, post

GET = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def attacked(server: Process) -> Generator[Process]:
    with daemon("--backend-url", server.url) as process:
        yield process
        assert "Traceback" not in process.printed, process.printed[process.printed.index("Traceback") - 300 :][:3000]


def sent(proxy: Process, data: bytes) -> tuple[int, bytes]:
    """Return the response to these bytes; status 0 if the connection was closed without one."""
    with connected(proxy) as connection:
        connection.sendall(data)
        try:
            return answer(connection)
        except (HTTPException, ConnectionError):
            return 0, b""


def with_length(body: bytes, *headers: str) -> bytes:
    return post(f"Content-Length: {len(body)}", *headers) + body


@pytest.mark.parametrize(
    ("data", "status", "word"),
    [
        (post("Transfer-Encoding: chunked", f"Content-Length: {len(BODY)}") + BODY, 400, "HTTP"),
        (post("Content-Length: 5", "Content-Length: 6") + BODY, 400, "HTTP"),
        (post("Content-Length: -1"), 400, "HTTP"),
        (post("Content-Length: 99999999999999999999"), 400, "HTTP"),
        (post("Content-Length: 18446744073709551615"), 413, "server.max_body_mb"),
        (post("Transfer-Encoding: gzip, chunked") + chunked([BODY]), 415, "compression"),
        (post("Transfer-Encoding: chunked") + b"zz\r\n", 400, "HTTP"),
        (GET + b"A: b\r\n folded\r\n\r\n", 400, "HTTP"),
        (GET + b"A: b\x00c\r\n\r\n", 400, "HTTP"),
        (GET + b"A: b\rc: d\r\n\r\n", 400, "HTTP"),
        (GET + b"A : b\r\n\r\n", 400, "HTTP"),
        (b"GET /v1/models HTTP/1.1\r\n\r\n", 400, "Host"),
        (GET + b"Host: localhost\r\n\r\n", 400, "host was sent twice"),
        (GET + b"Host: evil.example\r\n\r\n", 400, "host was sent twice"),
        (GET + b"Origin: http://localhost\r\nOrigin: http://evil.example\r\n\r\n", 400, "origin was sent twice"),
        (GET + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n", 400, "authorization was sent twice"),
        (b"TRACE /v1/models HTTP/1.1\r\nHost: localhost\r\nCookie: secret\r\n\r\n", 405, "Method Not Allowed"),
        (b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "HTTP"),
        (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "HTTP"),
        (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, ""),
        (b"GET //v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, ""),
        (b"GET /V1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "did you mean"),
        (b"GET /nowhere%0d%0aSet-Cookie:a=b HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, ""),
        (b"GET /v1/models/%0d%0a%F0%9F%98%80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, ""),
        (with_length(gzip.compress(BODY), "Content-Encoding: gzip"), 415, "compression"),
        (with_length(BODY, "Content-Encoding: br"), 415, "compression"),
        (with_length(b"--x\r\n\r\n{}\r\n--x--", "Content-Type: multipart/form-data"), 415, "application/json"),
        (with_length(b"model=a", "Content-Type: application/x-www-form-urlencoded"), 415, "application/json"),
        (with_length(b"\x1f\x8b not JSON"), 400, "not valid JSON"),
        (with_length(b""), 400, "empty; send a JSON object"),
        (with_length(b"[" * 10_000 + b"]" * 10_000), 400, "not valid JSON"),
        (with_length(b'{"messages":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001), 400, "not valid JSON"),
        (with_length(b'{"messages":[{"role":"user","content":NaN}]}'), 400, "not valid JSON"),
        (with_length(b'{"messages":[{"role":"user","content":"\\ud800"}]}'), 400, "not valid JSON"),
        (with_length(b'{"messages":[{"role":"user","content":"\xff"}]}'), 400, "not valid JSON"),
        (with_length(BODY[:-1] + b',"temperature":1e999}'), 400, "not valid JSON"),
        (with_length(BODY[:-1] + b',"max_tokens":' + b"9" * 5000 + b"}"), 400, "not valid JSON"),
        (with_length(b'{"a":"b"}'), 400, "messages"),
        (with_length(json.dumps(ask("says", tools=[TOOL], n=10**9)).encode()), 400, "expected at most 128"),
        (with_length(json.dumps(ask("says", tools=[TOOL] * 30_000)).encode()), 400, "at most 512 tools"),
        (with_length(b'{"messages":[' + b"[]," * 400_000 + b"[]]}"), 413, "JSON values"),
        (with_length(BODY, "x-forge-guardrails: \xe9,rescue=of"), 400, "guardrail"),
    ],
)  # fmt: skip
def test_a_hostile_request_is_rejected_in_openai_format(attacked: Process, data: bytes, status: int, word: str) -> None:
    got, body = sent(attacked, data)

    assert got == status, body
    assert word in json.loads(body)["error"]["message"]
    assert httpx.get(f"{attacked.url}/healthz").status_code == 200


@pytest.mark.parametrize(
    "data",
    [
        with_length(BODY).replace(b"HTTP/1.1", b"HTTP/1.0"),
        with_length(BODY).replace(b"HTTP/1.1\r\nHost: localhost", b"HTTP/1.0"),
        with_length(BODY).replace(f"POST {PATH}".encode(), f"POST http://localhost{PATH}".encode()),
        with_length(BODY).replace(b"/chat/", b"/%63hat/"),
        with_length(BODY).replace(b"/completions", b"/completions?key=value&a=%00"),
        with_length(BODY, "Content-Type: application/x-www-form-urlencoded"),  # as curl -d sends it
        with_length(BODY, "Content-Encoding: identity"),
        with_length(b'{"model":"unknown",' + BODY[1:]),  # of two equal keys the last one counts
        with_length(BODY[:-1] + b',"seed":12345678901234567890123,"top_p":-0}'),
        with_length(BODY, "x-request-id: a\xe9b"),
        b"\r\n\r\n" + with_length(BODY),
    ],
)
def test_unusual_but_valid_requests_are_answered(attacked: Process, data: bytes) -> None:
    assert sent(attacked, data)[0] == 200


@pytest.mark.parametrize("name", ["a\r\nSet-Cookie: b", "\u00fc\U0001f600", "x" * 100_000, "\u0000", "a\nb"])
@pytest.mark.parametrize("stream", [False, True])
def test_no_name_from_a_client_reaches_the_headers(attacked: Process, name: str, stream: bool) -> None:
    names = {"tools": [{"type": "function", "function": {"name": name[:256]}}], "user": name, "stream": stream}
    answered = httpx.post(f"{attacked.url}{PATH}", json={**ask("says"), **names})

    assert answered.status_code == 200
    assert "set-cookie" not in answered.headers
    assert all(len(value) < 2000 for value in answered.headers.values())


def test_the_connection_is_reused_after_a_rejected_request(attacked: Process) -> None:
    with connected(attacked) as connection:
        for body, status in ((b"{", 400), (b'{"a":1}', 400), (BODY, 200), (b"[]", 400), (BODY, 200)):
            connection.sendall(with_length(body))
            assert answer(connection)[0] == status


def test_a_rejection_is_never_read_as_the_response_to_an_earlier_request(attacked: Process) -> None:
    body = json.dumps(ask("hangs")).encode()
    with connected(attacked) as connection:
        connection.sendall(with_length(body) + b"\x00\x00")

        with pytest.raises((HTTPException, ConnectionError)):
            HTTPResponse(connection).begin()


def test_a_client_that_disconnects_before_its_body_leaves_nothing_behind(attacked: Process) -> None:
    for _ in range(20):
        with connected(attacked) as connection:
            connection.sendall(post("Content-Length: 1000000") + b"{")
            connection.shutdown(socket.SHUT_WR)

    assert sent(attacked, with_length(BODY))[0] == 200


def test_bytes_that_are_not_http_do_not_fill_the_log(attacked: Process) -> None:
    before = attacked.printed.count("this is not a valid request of HTTP/1.1")
    for _ in range(100):
        sent(attacked, b"\x16\x03\x01\x02\x00")

    assert attacked.printed.count("this is not a valid request of HTTP/1.1") - before < 20
