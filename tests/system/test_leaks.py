"""Many clients that disconnect or never read cost the daemon no lasting memory, task or descriptor."""

from __future__ import annotations

import json
import resource
import socket
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.fakes.far_side import FarSide, far_side
from tests.fakes.processes import Process, daemon, model_server, until
from tests.system.asking import PATH, TOOL, JsonDict, ask
from tests.system.runs import RUNS, Place, submission, submit, wait_until

ABORTED = 1000
WATCHERS = 400


@pytest.fixture
def side() -> Generator[FarSide]:
    with far_side() as side:
        yield side


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def megabytes(pid: int) -> float:
    """Resident memory of the process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


def busy(proxy: Process) -> tuple[int, int]:
    """Requests that run, and that wait."""
    queue = httpx.get(f"{proxy.url}/admin/v1/status", timeout=20).json()["queue"]
    return queue["running"], queue["waiting"]


def connect(proxy: Process) -> socket.socket:
    parts = urlsplit(proxy.url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30)


def post(proxy: Process, body: JsonDict) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: {urlsplit(proxy.url).netloc}\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def abort(proxy: Process, number: int) -> None:
    """Send a request, and disconnect: while sending, at once, during the response, or by a reset."""
    models = ("says", "hangs", "stalls", "talks-then-hangs")
    body = ask(models[number % 4], stream=number % 8 < 4, user=str(number), **({"tools": [TOOL]} if number % 3 else {}))
    data = post(proxy, body)
    with connect(proxy) as connection:
        if number % 5 == 0:
            connection.sendall(data[: len(data) // 2])
            return
        connection.sendall(data)
        if number % 5 == 1:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        elif number % 5 == 2 and number % 4 == 0:
            connection.recv(1)


def abort_all(pool: ThreadPoolExecutor, proxy: Process, count: int) -> None:
    for leaving in [pool.submit(abort, proxy, number) for number in range(count)]:
        leaving.result()


def test_a_thousand_aborted_requests_leave_nothing_behind() -> None:
    with (
        model_server(slots=8) as server,
        daemon("--backend-url", server.url) as proxy,
        ThreadPoolExecutor(16) as pool,
    ):
        abort_all(pool, proxy, 200)  # what is loaded once stays
        until(lambda: busy(proxy) == (0, 0), "no request is left")
        before = descriptors(proxy.pid), megabytes(proxy.pid)

        abort_all(pool, proxy, ABORTED)

        until(lambda: busy(proxy) == (0, 0), "no request is left")
        until(lambda: descriptors(proxy.pid) <= before[0] + 8, "the connections are closed")
        assert megabytes(proxy.pid) < before[1] + 20
        assert httpx.post(proxy.url + PATH, json=ask("says"), timeout=30).status_code == 200
        assert "Traceback" not in proxy.printed


def test_hundreds_of_watchers_that_never_read_delay_nobody_and_cost_little(side: FarSide, tmp_path: Path) -> None:
    place = Place(side, tmp_path)
    side.hold("look")
    with place.daemon() as proxy, ExitStack() as watching:
        run = submit(proxy, submission(side, "look", "finish"))
        side.wait_for_called("look")
        before = descriptors(proxy.pid), megabytes(proxy.pid)
        request = f"GET {RUNS}/{run['id']}/events HTTP/1.1\r\nHost: {urlsplit(proxy.url).netloc}\r\n\r\n".encode()
        for _ in range(WATCHERS):
            watching.enter_context(connect(proxy)).sendall(request)
        until(lambda: descriptors(proxy.pid) >= before[0] + WATCHERS, "all of them watch")
        side.let_go("look")

        done = wait_until(proxy, run["id"], "completed", "failed")

        assert done["status"] == "completed"
        assert megabytes(proxy.pid) < before[1] + 60
        watching.close()
        until(lambda: descriptors(proxy.pid) <= before[0] + 16, "their connections are closed")


def test_with_few_descriptors_left_the_daemon_survives_and_serves_the_next_client(
    side: FarSide, tmp_path: Path
) -> None:
    place = Place(side, tmp_path)
    with place.daemon() as proxy, ExitStack() as idle:
        submit(proxy, submission(side, "look", "finish"))
        limits = resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE, (64, limits[1]))
        for _ in range(80):
            idle.enter_context(connect(proxy))
        time.sleep(0.5)
        idle.close()
        until(lambda: _answers(proxy), "the connections are closed")

        run = submit(proxy, submission(side, "look", "finish"))

        assert wait_until(proxy, run["id"], "completed", "failed")["status"] == "completed"
        assert proxy.printed.count("Traceback") == 0


def _answers(proxy: Process) -> bool:
    """libuv resets new connections while no descriptor is free."""
    try:
        return httpx.get(proxy.url + "/health", timeout=20).status_code == 200
    except httpx.TransportError:
        return False
