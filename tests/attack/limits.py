"""Limits of the machine and its clocks: few descriptors, little memory, a clock that jumps, a machine that sleeps."""

from __future__ import annotations

import json
import resource
import signal
import socket
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx

from tests.attack.attack import Drill
from tests.attack.target import CHAT, TOOL, Target, ask, head, own_folder, statuses, together
from tests.fakes.far_side import far_side
from tests.fakes.processes import Process, daemon, model_server
from tests.fakes.wall_clock import WallClock
from tests.system import runs
from tests.system.runs import Place, submission, submit

_DAY = 86_400
_SPARE_MEMORY = 200_000_000


@contextmanager
def _few_descriptors(count: int) -> Generator[Target]:
    """A daemon that may open this many files and cannot raise the limit."""
    limits = {resource.RLIMIT_NOFILE: count}
    with model_server() as server, daemon("--backend-url", server.url, limits=limits) as proxy:
        yield Target(proxy, server)


def _honest_share(target: Target, count: int = 20) -> dict[str, int]:
    """How honest requests are answered, one after the other, each on a connection of its own."""
    return statuses(together(count, lambda _: target.post(ask("says", tools=[TOOL]), seconds=20), clients=1))


def _idle_connections(descriptors: int, connections: int) -> None:
    """Connections that say nothing. Honest requests are answered meanwhile and afterwards."""
    with _few_descriptors(descriptors) as target, ExitStack() as stack:
        for _ in range(connections):
            with suppress(OSError):
                stack.enter_context(target.connected(5))
        time.sleep(1)  # of those that come in one burst with them a few are turned away with a 503
        came = _honest_share(target)
        assert came == {"200": 20}, f"honest requests meanwhile: {came}"
        stack.close()
        target.is_well()
        assert "Traceback" not in target.proxy.printed


def _dribbled(part: bytes, drip: bytes) -> None:
    """300 requests whose head or body comes a byte a second. Honest requests are answered meanwhile."""
    with _few_descriptors(256) as target, ExitStack() as stack:
        slow: list[socket.socket] = []
        for _ in range(300):
            with suppress(OSError):
                slow.append(stack.enter_context(target.connected(5)))
                slow[-1].sendall(part)
        for _ in range(5):
            for connection in slow:
                with suppress(OSError):
                    connection.sendall(drip)
            came = _honest_share(target, 5)
            assert came == {"200": 5}, f"honest requests meanwhile: {came}"
            time.sleep(1)


def _runs_with_few_descriptors() -> None:
    """With 64 descriptors, most of them used by idle clients, a run is accepted at the third attempt at the latest."""
    limits = {resource.RLIMIT_NOFILE: 64}
    with far_side() as side, own_folder() as folder, ExitStack() as stack:
        proxy = stack.enter_context(Place(side, folder).daemon(limits=limits))
        target = Target(proxy, proxy)
        for _ in range(100):
            with suppress(OSError):
                stack.enter_context(target.connected(5))
        run = _submit_as_sdks_do(proxy, submission(side, "look", "finish"))
        done = runs.wait_until(proxy, run["id"], *runs.FINISHED)
        assert done["status"] == "completed", done["error"]
        assert "Traceback" not in proxy.printed


def _submit_as_sdks_do(proxy: Process, submitted: runs.JsonDict) -> runs.JsonDict:
    """Submit it, and again after a 503, twice at most: idle connections are being closed meanwhile."""
    response = httpx.post(proxy.url + runs.RUNS, json=submitted, timeout=20)
    for _ in range(2):
        if response.status_code == 503:
            assert "retry-after" in response.headers, "a 503 without Retry-After"
            time.sleep(0.5)
            response = httpx.post(proxy.url + runs.RUNS, json=submitted, timeout=20)
    assert response.status_code == 200, response.text
    run: runs.JsonDict = response.json()
    return run


def _little_memory() -> None:
    """Bodies that exceed the available memory: each gets an error response, and the daemon keeps running."""
    with model_server() as server, daemon("--backend-url", server.url) as proxy:
        target = Target(proxy, server)
        target.is_well()
        size = int(Path(f"/proc/{proxy.pid}/statm").read_text().split()[0]) * resource.getpagesize()
        resource.prlimit(proxy.pid, resource.RLIMIT_AS, (size + _SPARE_MEMORY, resource.RLIM_INFINITY))
        body = json.dumps({**ask("says", tools=[TOOL]), "filler": "x" * 60_000_000}).encode()
        answers = together(16, lambda _: target.post(body))
        came = statuses(answers)  # a client that sends on for seconds after its refusal may lose it with the connection
        assert set(came) <= {"200", "413", "503", "ConnectionError"}, f"bodies of 60 MB: {came}"
        assert came.get("ConnectionError", 0) < 8, f"bodies of 60 MB: {came}"
        target.is_well()
        assert "Traceback" not in proxy.printed, "the lack of memory was logged with a traceback"


def _clock_jumps(seconds: int) -> None:
    """The wall clock jumps while a stream and a run wait: both end well, and so do new ones."""
    with far_side() as side, own_folder() as folder:
        clock = WallClock(folder)
        with Place(side, folder).daemon(env=clock.settings) as proxy:
            side.hold("look")
            run = submit(proxy, submission(side, "look", "finish"))
            side.wait_for_called("look")
            side.hold("model")
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(_chat, proxy)
                side.wait_for_asked(2)
                clock.jump(seconds)
                time.sleep(2)
                side.let_go("model")
                side.let_go("look")
                assert waiting.result() == 200, f"a request that waited: {waiting.result()}"
            done = runs.wait_until(proxy, run["id"], *runs.FINISHED)
            assert done["status"] == "completed", done["error"]
            assert _chat(proxy) == 200
            later = submit(proxy, submission(side, "look", "finish"))
            done = runs.wait_until(proxy, later["id"], *runs.FINISHED)
            assert done["status"] == "completed", done["error"]
            assert "Traceback" not in proxy.printed


def _chat(proxy: Process) -> int:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    return httpx.post(proxy.url + CHAT, json=ask("scripted", tools=[tool]), timeout=60).status_code


def _machine_sleeps() -> None:
    """The daemon is stopped for 12 s, longer than the header timeout, while a request and a run wait."""
    with far_side() as side, own_folder() as folder, Place(side, folder).daemon() as proxy:
        side.hold("look")
        run = submit(proxy, submission(side, "look", "finish"))
        side.wait_for_called("look")
        side.hold("model")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(_chat, proxy)
            side.wait_for_asked(2)
            proxy.send_signal(signal.SIGSTOP)
            time.sleep(12)
            proxy.send_signal(signal.SIGCONT)
            side.let_go("model")
            side.let_go("look")
            assert waiting.result() == 200, f"a request that waited: {waiting.result()}"
        done = runs.wait_until(proxy, run["id"], *runs.FINISHED)
        assert done["status"] == "completed", done["error"]
        assert "Traceback" not in proxy.printed


_BEGUN_HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
_BEGUN_BODY = head("POST", CHAT, "Content-Length: 1000") + b"{"

ATTACKS = [
    Drill("100 idle connections against 64 descriptors", "faults", partial(_idle_connections, 64, 100)),
    Drill("a run with 64 descriptors", "faults", _runs_with_few_descriptors),
    Drill("300 dribbled heads against 256 descriptors", "faults", partial(_dribbled, _BEGUN_HEAD, b"a")),
    Drill("300 dribbled bodies against 256 descriptors", "faults", partial(_dribbled, _BEGUN_BODY, b" ")),
    Drill("16 bodies of 60 MB with 200 MB of memory left", "faults", _little_memory),
    Drill("wall clock a day forward", "faults", partial(_clock_jumps, _DAY)),
    Drill("wall clock a day back", "faults", partial(_clock_jumps, -_DAY)),
    Drill("daemon that stands still for 12 s", "faults", _machine_sleeps),
]
