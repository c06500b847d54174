"""Attacks through runs and their tools: callbacks to forbidden hosts, hostile MCP servers, races and slow watchers."""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import httpx

from tests.attack.attack import Drill
from tests.attack.target import JsonDict, Target, own_folder, together
from tests.fakes.far_side import SECRET, FarSide, far_side
from tests.fakes.processes import Process, has_ended, until
from tests.system.runs import FINISHED, RUNS, Place, look, submission, submit, wait_until

_FORBIDDEN = (
    "http://127.0.0.1:{port}/tools/look", "http://127.1:{port}/x", "http://2130706433:{port}/x",
    "http://0x7f000001:{port}/x", "http://0177.0.0.1:{port}/x", "http://[::1]:{port}/x",
    "http://[::ffff:127.0.0.1]:{port}/x", "http://0.0.0.0:{port}/x", "http://0:{port}/x",
    "http://localhost:{port}/x", "http://LOCALHOST:{port}/x", "http://localhost.:{port}/x",
    "http://169.254.169.254/latest/meta-data/", "http://metadata.google.internal/", "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/x", "ftp://127.0.0.1:{port}/x", "http://allowed.example@127.0.0.1:{port}/x",
    "http://127.0.0.1:{port}#@allowed.example/x", "http://127.0.0.1:{port}\\@allowed.example/x",
    "http://allowed.example:{port}@127.0.0.1:{port}/x", "//127.0.0.1:{port}/x", "http:/127.0.0.1:{port}/x",
    "http://127.0.0.1:{port}\t/x", "http://\uff11\uff12\uff17.0.0.1:{port}/x", "unix:///run/docker.sock", "",
)  # fmt: skip


@contextmanager
def tools_daemon(side: FarSide, allow: str | None = None, **env: str) -> Generator[Process]:
    """A daemon whose runs may call back to one origin: that of the far side, or another one."""
    with own_folder() as folder:
        callbacks = {"allow": [allow or side.url], "secret": SECRET, "timeout_seconds": 5, "retries": 0}
        settings = {"FORGE_PROXY_TOOLS__CALLBACKS": json.dumps(callbacks), **env}
        with Place(side, folder).daemon(env=settings) as proxy:
            yield proxy


def _forbidden_hosts() -> None:
    with far_side() as side, tools_daemon(side, "http://allowed.example:9000") as proxy:
        port = str(urlsplit(side.url).port)
        for url in _FORBIDDEN:
            body = submission(side, "look", "finish")
            body["workflow"]["tools"]["look"]["execute"]["url"] = url.format(port=port)
            response = httpx.post(proxy.url + RUNS, json=body, timeout=20)
            assert response.status_code == 400, f"{url}: {response.status_code}"
        assert not side.called, "a forbidden host was called"


Answerer = Callable[[BaseHTTPRequestHandler, bytes], None]
"""Answers a request, whose body it gets."""


@contextmanager
def http_tool(answer: Answerer) -> Generator[str]:
    """An HTTP server for callbacks; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with suppress(OSError):
                answer(self, body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name it has
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _hostile_callback(answer: Answerer) -> None:
    """The run fails with an error of its tool or continues; it does not hang, and the daemon's memory does not grow."""
    with far_side() as side, http_tool(answer) as url, tools_daemon(side, url) as proxy:
        target = Target(proxy, proxy)
        before = target.memory_mb()
        body = submission(side, "look", "finish", max_tool_errors=0)
        for tool in ("look", "finish"):
            body["workflow"]["tools"][tool]["execute"]["url"] = f"{url}/{tool}"
        run = submit(proxy, body)
        done = wait_until(proxy, run["id"], *FINISHED)
        assert done["status"] in ("failed", "completed")
        assert target.memory_mb() - before < 150, f"memory grew by {target.memory_mb() - before:.0f} MB"
        assert "Traceback" not in proxy.printed


def _redirects_inward(handler: BaseHTTPRequestHandler, _: bytes) -> None:
    handler.send_response(307)
    handler.send_header("Location", "http://127.0.0.1:1/inside")
    handler.end_headers()


def _answers_hugely(handler: BaseHTTPRequestHandler, _: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.end_headers()
    handler.wfile.write(b'{"output": "')
    for _turn in range(1600):
        handler.wfile.write(b"x" * 65536)


def _answers_deeply(handler: BaseHTTPRequestHandler, _: bytes) -> None:
    raw = b'{"output": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(raw)))
    handler.end_headers()
    handler.wfile.write(raw)


def _answers_garbage(handler: BaseHTTPRequestHandler, _: bytes) -> None:
    handler.wfile.write(b"\0\xff\xfe garbage\r\n\r\n")


def _answers_slowly(handler: BaseHTTPRequestHandler, _: bytes) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    for _turn in range(20):
        handler.wfile.write(b" ")
        time.sleep(1)


def _hostile_mcp(kind: str) -> None:
    """A run with a hostile MCP program ends, while a healthy MCP program serves another run."""
    hostile = {"command": sys.executable, "args": ["-m", "tests.attack.mcp_adversary", kind]}
    healthy = {"command": sys.executable, "args": ["-m", "tests.fakes.mcp_server", "stdio"]}
    for server in (hostile, healthy):
        server["env"] = {"PYTHONPATH": ":".join(sys.path)}  # pyright: ignore[reportArgumentType]
    mcp = {"servers": {"hostile": hostile, "healthy": healthy}, "timeout_seconds": 5, "connect_seconds": 10}
    with far_side() as side, tools_daemon(side, FORGE_PROXY_TOOLS__MCP=json.dumps(mcp)) as proxy:
        target = Target(proxy, proxy)
        before = target.memory_mb()
        hit = threading.Thread(target=lambda: httpx.post(proxy.url + RUNS, json=_workflow("hostile"), timeout=60))
        hit.start()
        run = submit(proxy, _workflow("healthy"))
        done = wait_until(proxy, run["id"], *FINISHED)
        assert done["status"] == "completed", f"a healthy server beside it: {done['error']}"
        hit.join(60)
        assert not hit.is_alive(), "the submission hangs"
        listed = httpx.get(proxy.url + RUNS, timeout=20).json()["data"]
        for one in listed:
            wait_until(proxy, one["id"], *FINISHED)
        assert target.memory_mb() - before < 200, f"memory grew by {target.memory_mb() - before:.0f} MB"
        assert "Traceback" not in proxy.printed


def _program_is_replaced() -> None:
    """After a call that hangs the program is another one, and what it had daemonized has ended."""
    program = {"command": sys.executable, "args": ["-m", "tests.fakes.hostile_mcp_server"]}
    mcp = {"servers": {"hostile": {**program, "env": {"PYTHONPATH": ":".join(sys.path)}}}, "timeout_seconds": 3}
    with far_side() as side, tools_daemon(side, FORGE_PROXY_TOOLS__MCP=json.dumps(mcp)) as proxy:
        before = int(_result_of(proxy, "pid"))
        orphan = int(_result_of(proxy, "daemonize"))
        _run_tool(proxy, "hang")
        after = int(_result_of(proxy, "pid"))
        assert after != before, "the program that hangs is still used"
        assert has_ended(before), "the program that hangs is still there"
        until(lambda: has_ended(orphan), "what the program had daemonized ends")


def _result_of(proxy: Process, tool: str) -> str:
    """What a tool of the hostile program returns."""
    run = _run_tool(proxy, tool)
    results = [str(message["content"]) for message in run["messages"] if message["role"] == "tool"]
    assert run["status"] == "completed", f"{tool}: {run['error']}"
    return results[0]


def _run_tool(proxy: Process, tool: str) -> JsonDict:
    body = _workflow("hostile")
    body["workflow"]["tools"] = {tool: body["workflow"]["tools"]["count"], **body["workflow"]["tools"]}
    del body["workflow"]["tools"]["count"]
    return wait_until(proxy, submit(proxy, body)["id"], *FINISHED)


def _workflow(server: str) -> JsonDict:
    tools = {
        "count": {"execute": {"by": "mcp", "server": server}},
        "finish": {"parameters": {"type": "object"}, "execute": {"by": "arguments"}},
    }
    workflow = {"name": "w", "tools": tools, "terminal_tool": "finish", "system_prompt_template": "Do it."}
    return {"workflow": workflow, "user_message": "Go.", "max_tool_errors": 0}


def _one_key_many_times() -> None:
    with far_side() as side, tools_daemon(side) as proxy:
        body = submission(side, "look", "finish")
        came = together(50, lambda _: submit(proxy, body, **{"Idempotency-Key": "same"})["id"], clients=50)
        assert len(set(map(str, came))) == 1, f"{len(set(map(str, came)))} different outcomes for one key"
        wait_until(proxy, came[0], *FINISHED)
        assert len(side.keys("look")) == 1, f"its tool was called {len(side.keys('look'))} times"


def _racing_cancels() -> None:
    with far_side() as side, tools_daemon(side) as proxy:
        for moment in range(20):
            run = submit(proxy, submission(side, "look", "check", "finish"))
            time.sleep(0.01 * moment)

            def cancel(_: int, run_id: str = run["id"]) -> int:
                return httpx.post(f"{proxy.url}{RUNS}/{run_id}/cancel", timeout=20).status_code

            came = together(10, cancel)
            assert set(came) <= {200, 202, 409}, f"answered with {set(came)}"
            done = wait_until(proxy, run["id"], *FINISHED)
            assert done["status"] in ("cancelled", "completed"), done["error"]
        assert "Traceback" not in proxy.printed


def _slow_watchers() -> None:
    """200 watchers of events who never read, of a run with a long history."""
    with far_side() as side, tools_daemon(side) as proxy, ExitStack() as stack:
        target = Target(proxy, proxy)
        tools = [f"look_{number}" for number in range(25)]
        side.hold(tools[0])
        run = submit(proxy, submission(side, *tools, "finish", metadata={"x": "y" * 100_000}))
        side.wait_for_called(tools[0])
        before = target.memory_mb()
        for _ in range(200):
            connection = http.client.HTTPConnection(target.host, target.port, timeout=30)
            stack.callback(connection.close)
            connection.request("GET", f"{RUNS}/{run['id']}/events")
        side.let_go(tools[0])
        assert wait_until(proxy, run["id"], *FINISHED)["status"] == "completed"
        assert look(proxy, run["id"])["status"] == "completed"
        grown = target.memory_mb() - before
        assert grown < 150, f"memory grew by {grown:.0f} MB"


def _odd_run_ids() -> None:
    with far_side() as side, tools_daemon(side) as proxy:
        target = Target(proxy, proxy)
        for name in ("run_%00", "run_%ff", "..%2f..%2fetc", "%0d%0aX: y", "x" * 5000, "run_'--", "%F0%9F%92%A5", "-1"):
            answer = target.get(f"{RUNS}/{name}")
            assert answer.status in (400, 404), f"{name[:20]}: {answer.status}"


ATTACKS = [
    Drill("callbacks to forbidden hosts in 27 forms", "tools", _forbidden_hosts),
    Drill("a callback that redirects inward", "tools", partial(_hostile_callback, _redirects_inward)),
    Drill("a callback that answers with 100 MB", "tools", partial(_hostile_callback, _answers_hugely)),
    Drill("a callback that answers 10,000 levels deep", "tools", partial(_hostile_callback, _answers_deeply)),
    Drill("a callback that answers with garbage", "tools", partial(_hostile_callback, _answers_garbage)),
    Drill("a callback that answers a byte a second", "tools", partial(_hostile_callback, _answers_slowly)),
    *(
        Drill(f"an MCP program that {what}", "tools", partial(_hostile_mcp, kind))
        for kind, what in (
            ("hangs", "hangs in a call"), ("floods", "floods"), ("long-line", "writes a line without end"),
            ("dies", "dies in a call"), ("garbage", "prints garbage"), ("huge", "returns 100 MB"),
            ("silent", "never greets"),
        )
    ),
    Drill("an MCP program that hangs is replaced", "tools", _program_is_replaced),
    Drill("50 submissions at once with one key", "tools", _one_key_many_times),
    Drill("200 racing cancels", "tools", _racing_cancels),
    Drill("200 watchers that never read", "tools", _slow_watchers),
    Drill("odd run ids", "tools", _odd_run_ids),
]  # fmt: skip
