"""How the daemon ends: by a signal, killed, or without its model server."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.fakes.processes import Process, children, daemon, has_ended, model_server, until
from tests.system.asking import PATH, ask, error, events, text

AT_ONCE = 5.0
DRAIN = {"FORGE_PROXY_SERVER__DRAIN_SECONDS": "1"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_running_stream_finishes_after_a_signal(number: int) -> None:
    with model_server() as server, daemon("--backend-url", server.url) as proxy:
        with httpx.stream("POST", proxy.url + PATH, json=ask("waits", stream=True), timeout=20) as response:
            lines = response.iter_lines()
            first = next(lines)
            proxy.send_signal(number)
            until(lambda: refuses(proxy.url), "the daemon stops accepting")
            httpx.post(server.url + "/go")
            rest = events(lines)
        code = proxy.wait()

    assert text(events([first, *(f"data: {event}" for event in rest)])) == "one two three"
    assert rest[-1] == "[DONE]"
    assert code == 0
    proxy.wait_for("stopped")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_endless_response_delays_the_end_by_the_drain_time_at_most(server: Process, stream: bool) -> None:
    user = f"drained {stream}"
    with daemon("--backend-url", server.url, env=DRAIN) as proxy, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx.post, proxy.url + PATH, json=ask("hangs", stream=stream, user=user), timeout=20)
        server.wait_for("asked", user=user)
        proxy.send_signal(signal.SIGTERM)
        code = proxy.wait()
        left = asked.exception(20) or asked.result()

    assert code == 0
    server.wait_for("left", user=user)
    assert isinstance(left, httpx.Response)
    assert left.status_code == 503
    assert error(left)["code"] == "stopping"
    assert "Traceback" not in proxy.printed


def test_an_idle_daemon_ends_at_once_and_its_embedded_server_with_it() -> None:
    with daemon("--backend", "embedded") as proxy, httpx.Client(base_url=proxy.url) as idle:
        idle.get("/healthz")
        (child,) = children(proxy.pid, pool=False)
        told_at = time.monotonic()

        code = proxy.stop()

    assert code == 0
    assert time.monotonic() - told_at < AT_ONCE
    assert has_ended(child)
    proxy.wait_for("stopped")


def test_a_killed_daemon_leaves_no_embedded_server_behind() -> None:
    with daemon("--backend", "embedded") as proxy:
        (child,) = children(proxy.pid, pool=False)

        proxy.send_signal(signal.SIGKILL)

        assert proxy.wait() == -signal.SIGKILL
        until(lambda: has_ended(child), "the embedded server ends")


def refuses(url: str) -> bool:
    """Whether a new connection is refused."""
    try:
        httpx.get(url + "/healthz", timeout=1)
    except httpx.TransportError:
        return True
    return False
