"""A client that disconnects ends the generation, in every phase."""

from __future__ import annotations

import json
import socket
import time
from urllib.parse import urlsplit

import pytest

from tests.fakes.processes import Process, until
from tests.system.asking import PATH, TOOL, ask

AT_ONCE = 1.0


def sent(proxy: Process, body: bytes, length: int | None = None, headers: str = "") -> socket.socket:
    """A connection on which a request was sent, and nothing of the response was read."""
    parts = urlsplit(proxy.url)
    connection = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10)
    length = len(body) if length is None else length
    head = f"POST {PATH} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {length}\r\n{headers}\r\n"
    connection.sendall(head.encode() + body)
    return connection


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("tools", [{}, {"tools": [TOOL]}], ids=["passed-through", "guarded"])
@pytest.mark.parametrize("model", ["hangs", "stalls"])
def test_a_client_that_disconnects_ends_its_generation(
    server: Process, proxy: Process, model: str, stream: bool, tools: dict[str, object]
) -> None:
    user = f"{model} {stream} {tools}"
    body = json.dumps(ask(model, stream=stream, user=user, **tools)).encode()
    with sent(proxy, body):
        server.wait_for("asked", user=user)
        left_at = time.monotonic()

    server.wait_for("left", user=user)

    assert time.monotonic() - left_at < AT_ONCE


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_that_disconnects_during_a_retry_ends_it(server: Process, proxy: Process, stream: bool) -> None:
    user = f"asked again {stream}"
    body = json.dumps(ask("talks-then-hangs", stream=stream, user=user, tools=[TOOL])).encode()
    with sent(proxy, body, headers=f"X-Request-Id: again-{stream}\r\n"):
        proxy.wait_for("retried", request_id=f"again-{stream}")
        server.wait_for("asked", user=user, messages=3)
        left_at = time.monotonic()

    server.wait_for("left", user=user)

    assert time.monotonic() - left_at < AT_ONCE
    assert proxy.wait_for("abandoned", request_id=f"again-{stream}")


def test_a_client_that_disconnects_after_the_first_text_ends_the_generation(server: Process, proxy: Process) -> None:
    with sent(proxy, json.dumps(ask("stalls", stream=True, user="listener")).encode()) as connection:
        got = b""
        while b'"one "' not in got:
            got += connection.recv(4096)
        left_at = time.monotonic()

    server.wait_for("left", user="listener")

    assert time.monotonic() - left_at < AT_ONCE


def test_a_disconnect_is_logged_as_an_event_without_a_traceback(server: Process, proxy: Process) -> None:
    before = proxy.printed.count('"abandoned"')
    with sent(proxy, json.dumps(ask("hangs", user="quiet")).encode()):
        server.wait_for("asked", user="quiet")
    server.wait_for("left", user="quiet")

    with sent(proxy, b'{"model":', length=1000):
        pass  # disconnected in the middle of the request
    with sent(proxy, json.dumps(ask("says", user="after")).encode()) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")

    until(lambda: proxy.printed.count('"abandoned"') > before, "the log says that it was abandoned")
    assert "Traceback" not in proxy.printed
