"""The events of a running daemon, followed over HTTP."""

from __future__ import annotations

import json
import signal
import socket
import time

import httpx

from tests.fakes.processes import daemon, model_server
from tests.system.asking import PATH, ask

EVENTS = "/admin/v1/events"


def test_a_follower_sees_a_request_end_and_does_not_delay_the_end_of_the_daemon() -> None:
    with model_server() as server, daemon("--backend-url", server.url) as proxy:
        with httpx.stream("GET", proxy.url + EVENTS, params={"event": "answered"}, timeout=20) as response:
            assert httpx.post(proxy.url + PATH, json=ask("says"), headers={"x-request-id": "mine"}).is_success
            lines = response.iter_lines()
            data = next(line for line in lines if line.startswith("data: "))
            proxy.send_signal(signal.SIGTERM)
            stopped_at = time.monotonic()
            rest = [line for line in lines if line and not line.startswith(":")]
        code = proxy.wait()

    assert json.loads(data.removeprefix("data: "))["request_id"] == "mine"
    assert rest == ["event: stopping", 'data: {"message":"the daemon is stopping"}']
    assert code == 0
    assert time.monotonic() - stopped_at < 5


def test_a_follower_that_does_not_read_delays_no_request() -> None:
    with model_server() as server, daemon("--backend-url", server.url) as proxy, httpx.Client() as client:
        host, _, port = proxy.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as stuck:
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            stuck.sendall(f"GET {EVENTS} HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n".encode())
            until_answered = [_seconds_of_one(client, proxy.url) for _ in range(60)]
            followed = client.get(proxy.url + EVENTS, params={"follow": "false", "event": "answered"}).text

    assert sorted(until_answered)[50] < 1
    assert followed.count("data: ") == 60


def _seconds_of_one(client: httpx.Client, url: str) -> float:
    began_at = time.monotonic()
    assert client.post(url + PATH, json=ask("says")).is_success
    return time.monotonic() - began_at
