"""Attacks on callbacks beyond their URLs: names that resolve to internal addresses, and replayed signatures."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

import httpx

from tests.attack.attack import Drill
from tests.attack.target import own_folder
from tests.attack.tools import http_tool, tools_daemon
from tests.fakes.far_side import SECRET, far_side
from tests.fakes.processes import ROOT, Process, environment, free_port, until
from tests.system.runs import FINISHED, submission, submit, wait_until

_INWARD = {
    "cloud.example": "169.254.169.254",
    "nowhere.example": "0.0.0.0",
    "mapped.example": "::ffff:169.254.169.254",
    "translated.example": "64:ff9b::a9fe:a9fe",
    "group.example": "224.0.0.1",
    "inner.wide.example": "127.0.0.1",
    "six.wide.example": "::1",
}
"""Names, and addresses to which no listed name may resolve; those of `*.wide.example` are listed by the asterisk."""


def _names_that_lead_inward() -> None:
    with far_side() as side, own_folder() as folder:
        port = urlsplit(side.url).port
        hosts = folder / "hosts"
        hosts.write_text(
            "127.0.0.1 localhost honest.example\n" + "".join(f"{to} {name}\n" for name, to in _INWARD.items())
        )
        names = ["honest.example", *(name for name in _INWARD if "wide" not in name), "*.wide.example"]
        callbacks = {"allow": [f"http://{name}:{port}" for name in names], "secret": SECRET, "retries": 0}
        env = {
            "FORGE_PROXY_TOOLS__CALLBACKS": json.dumps(callbacks),
            "FORGE_PROXY_STORE__URL": f"sqlite+aiosqlite:///{folder}/runs.db",
        }
        words = ("serve", "--port", "0", "--backend-url", side.url)
        proxy = Process("tests.fakes.with_hosts", str(hosts), *words, env=env)
        try:
            proxy.url = str(proxy.wait_for("listening")["url"]).removesuffix("/v1")
            for name in ("honest.example", *_INWARD):
                body = submission(side, "look", max_tool_errors=0)
                body["workflow"]["tools"]["look"]["execute"]["url"] = f"http://{name}:{port}/tools/look"
                done = wait_until(proxy, submit(proxy, body)["id"], *FINISHED)
                is_honest = name == "honest.example"
                assert (done["status"] == "completed") is is_honest, f"{name}: the run {done['status']}"
            assert len(side.called) == 1, f"{len(side.called) - 1} calls came through names that lead inward"
        finally:
            proxy.stop()


def _signatures_sent_again() -> None:
    """A recorded call is sent to the tool of docs/tools.md again: changed, much later, and unchanged."""
    recorded: list[tuple[dict[str, str], bytes]] = []

    def record(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        recorded.append((dict(handler.headers.items()), body))
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b'{"output": "done"}')

    with far_side() as side, http_tool(record) as url, tools_daemon(side, url) as proxy:
        body = submission(side, "look", "finish")
        for tool in ("look", "finish"):
            body["workflow"]["tools"][tool]["execute"]["url"] = f"{url}/{tool}"
        wait_until(proxy, submit(proxy, body)["id"], *FINISHED)
    (headers, call), *_, (other_headers, other_call) = recorded
    assert headers["X-Forge-Signature"] != other_headers["X-Forge-Signature"], "two calls have one signature"
    late = str(int(headers["X-Forge-Timestamp"]) - 600)
    signature = hmac.new(SECRET.encode(), late.encode() + b"." + call, hashlib.sha256).hexdigest()
    with _documented_tool() as url:
        for what, sent, raw, status in (
            ("other arguments", headers, _of_the_example(call), 403),
            ("the body of another call", headers, other_call, 403),
            ("a newer timestamp", {**headers, "X-Forge-Timestamp": str(int(time.time()) + 1)}, call, 403),
            ("no signature", {**headers, "X-Forge-Signature": ""}, call, 403),
            (
                "ten minutes later",
                {**headers, "X-Forge-Timestamp": late, "X-Forge-Signature": f"v1={signature}"},
                call,
                403,
            ),
        ):
            kept = {name: value for name, value in sent.items() if name.startswith("X-Forge")}
            answer = httpx.post(url, content=raw, headers=kept, timeout=20)
            assert answer.status_code == status, f"{what}: {answer.status_code}"
        stamp = str(int(time.time()))
        raw = _of_the_example(call)
        signature = hmac.new(SECRET.encode(), stamp.encode() + b"." + raw, hashlib.sha256).hexdigest()
        right = {"X-Forge-Timestamp": stamp, "X-Forge-Signature": f"v1={signature}"}
        again = [httpx.post(url, content=raw, headers=right, timeout=20) for _ in range(3)]
        assert {(one.status_code, one.text) for one in again} == {(200, again[0].text)}, "a replay is answered anew"


def _of_the_example(call: bytes) -> bytes:
    """The call with the arguments that the documented tool takes."""
    return json.dumps({**json.loads(call), "arguments": {"city": "Paris"}}).encode()


@contextmanager
def _documented_tool() -> Generator[str]:
    """Run the example tool of docs/tools.md. Yields its URL."""
    (code,) = re.findall(
        r"^```python\n(import hashlib.*?)^```$", (ROOT / "docs/tools.md").read_text(), re.DOTALL | re.MULTILINE
    )
    port = free_port()
    env = {**environment(), "TOOL_SECRET": SECRET}
    process = subprocess.Popen(
        [sys.executable, "-c", code.replace("9000", str(port))], env=env, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}/"
    try:
        until(lambda: _is_up(url), "the tool listens")
        yield url
    finally:
        process.kill()
        process.wait()


def _is_up(url: str) -> bool:
    try:
        httpx.get(url, timeout=5)
    except httpx.TransportError:
        return False
    return True


ATTACKS = [
    Drill("names that resolve to forbidden addresses", "tools", _names_that_lead_inward),
    Drill("signatures that are sent again", "tools", _signatures_sent_again),
]
