"""Each line of the log that a request causes has the id of this request."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.fakes.processes import daemon, model_server
from tests.system.asking import PATH, TOOL, JsonDict, ask

OF_THE_DAEMON = {
    "backend", "backend not ready", "backend slots", "budget", "chat template learned", "chat template not learned",
    "hardware", "listening", "ready", "settings", "stopped", "stopping",
}  # fmt: skip
UNUSABLE: JsonDict = {"type": "function", "function": {"name": "odd", "parameters": {"type": "nonsense"}}}
REQUESTS: dict[str, JsonDict] = {
    "answered": ask("says"),
    "retried": ask("loops-once", tools=[TOOL], stream=True),
    "failed": ask("fails"),
    "unknown-model": ask("no such model"),
    "rejected": {"model": "says", "messages": "none"},
    "unusable-schema": ask("says", tools=[TOOL, UNUSABLE]),
    "lost": ask("dies-twice", user="lost"),
}


def test_every_line_of_a_request_has_its_id(tmp_path: Path) -> None:
    env = {"FORGE_PROXY_LOG__LEVEL": "debug", "XDG_STATE_HOME": str(tmp_path)}
    with model_server() as server, daemon("--backend-url", server.url, env=env) as proxy:
        for request_id, body in REQUESTS.items():
            httpx.post(proxy.url + PATH, json=body, headers={"x-request-id": request_id}, timeout=30)
        httpx.get(f"{proxy.url}/nowhere", headers={"x-request-id": "nowhere"})
        proxy.wait_for("rejected", request_id="nowhere")
        proxy.stop()

    lines = [json.loads(line) for line in proxy.printed.splitlines()]
    of_requests = [line for line in lines if line["event"] not in OF_THE_DAEMON]
    assert [line for line in of_requests if line.get("request_id") not in {*REQUESTS, "nowhere"}] == []
    assert {line["request_id"] for line in of_requests} == {*REQUESTS, "nowhere"}
    assert {"answered", "retried", "failed", "rejected", "unusable schemas"} <= {line["event"] for line in of_requests}
