"""`docker compose up` as a user runs it: two containers, a guarded call, a health check, restarts, a drained stop.

`make system-docker` runs it; it needs a Docker engine and is not part of `make test`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import httpx
import pytest

from tests.docs.test_readme import blocks
from tests.system.asking import PATH
from tests.system.docker.compose import IMAGE, ROOT, Stack, docker, running, until

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("stack")]

PROXY, LLAMA = "forge-proxy", "llama-server"
PUBLIC = "FORGE_PROXY_SERVER__ALLOW_PUBLIC_WITHOUT_KEYS"
ASK: dict[str, Any] = {
    "model": "tiny-tools",
    "temperature": 0,
    "messages": [{"role": "user", "content": "Please get the weather with city Paris and days 3."}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "get the weather",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                    "required": ["city", "days"],
                },
            },
        }
    ],
}
LONG: dict[str, Any] = {"messages": ASK["messages"], "stream": True, "max_tokens": 1500, "ignore_eos": True}
"""About a second of the test model's time."""


def test_without_options_one_proxy_stands_beside_one_llama_server(stack: Stack) -> None:
    assert stack.services() == [PROXY, LLAMA]


def test_a_guarded_tool_call_comes_through(client: httpx.Client) -> None:
    assert called(client) == {"city": "Paris", "days": 3}


def test_the_curl_line_of_readme_gets_a_guarded_call(stack: Stack) -> None:
    line = next(block for block in blocks("sh") if block.startswith("curl ")).replace(
        "127.0.0.1:8081", f"127.0.0.1:{stack.port}"
    )

    done = subprocess.run(["sh", "-c", line], capture_output=True, check=True, timeout=30)

    assert json.loads(done.stdout)["choices"][0]["finish_reason"] == "tool_calls"


def test_it_is_published_on_this_machine_only(stack: Stack) -> None:
    ports = {service: stack.inspect(service)["NetworkSettings"]["Ports"] for service in (PROXY, LLAMA)}
    (network,) = stack.inspect(PROXY)["NetworkSettings"]["Networks"].values()

    assert ports[PROXY] == {"8081/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(stack.port)}]}
    assert not any(ports[LLAMA].values())
    with pytest.raises(httpx.ConnectError):  # this machine's own address on the stack's network
        httpx.get(f"http://{network['Gateway']}:{stack.port}/healthz")


def test_without_keys_it_is_public_only_if_the_setting_allows_it() -> None:
    refused = docker("run", "--rm", IMAGE, code=2)

    assert PUBLIC in refused.stderr


@pytest.mark.parametrize("service", [PROXY, LLAMA])
def test_it_is_one_process_that_is_nobody(stack: Stack, service: str) -> None:
    status = dict(line.split(":\t", 1) for line in stack.inside(service, "cat", "/proc/1/status").splitlines())

    assert stack.inside(service, "id", "-u") == "10001"
    assert len(docker("top", stack.container(service), "-o", "pid").stdout.splitlines()) == 1 + 1  # and a heading
    assert (int(status["CapEff"], 16), status["NoNewPrivs"]) == (0, "1")
    stack.inside(service, "touch", "/tmp/written", code=1)


def test_it_logs_json_lines_without_prompts_and_responses(stack: Stack, client: httpx.Client) -> None:
    called(client)
    until(lambda: any('"answered"' in line for line in stack.logged(PROXY)), "the answer is logged")

    lines = [json.loads(line) for line in stack.logged(PROXY)]

    assert all({"event", "level", "timestamp"} <= set(line) for line in lines)
    assert "Paris" not in "\n".join(stack.logged(PROXY))


def test_the_health_check_follows_the_model_server(stack: Stack, client: httpx.Client) -> None:
    stack.compose("stop", LLAMA)
    stack.inside(PROXY, "/app/answers", "8081", "/readyz", code=1)
    stack.inside(PROXY, "/app/answers", "8081", "/healthz")
    stack.inside(PROXY, "/app/answers", "8082", "/healthz", code=1)

    stack.compose("start", LLAMA)
    until(lambda: client.get("/readyz").status_code == 200, "it is ready again")

    assert called(client)


@pytest.mark.parametrize("service", [PROXY, LLAMA])
def test_what_crashes_is_started_again(stack: Stack, service: str) -> None:
    before = stack.inspect(service)

    kill = f"import os; os.kill({before['State']['Pid']}, 9)"
    docker("run", "--rm", "--pid", "host", "--user", "0", "--entrypoint", "python3", IMAGE, "-c", kill)
    until(lambda: stack.inspect(service)["RestartCount"] == before["RestartCount"] + 1, f"{service} starts again")
    until(lambda: is_ready(stack.url), "it is ready again")

    with httpx.Client(base_url=stack.url, timeout=30) as client:
        assert called(client)


def test_managed_replaces_the_pair_by_one_container() -> None:
    with running("managed") as managed, httpx.Client(base_url=managed.url, timeout=30) as client:
        assert managed.services() == ["forge-proxy-managed"]
        assert called(client)


def test_the_budget_is_switched_while_it_runs() -> None:
    with (
        running(added={"FORGE_PROXY_SERVER__ADMIN_KEYS": "made-up"}) as mine,
        httpx.Client(base_url=f"{mine.url}/admin/v1", headers={"Authorization": "Bearer made-up"}) as admin,
        httpx.Client(base_url=mine.url, timeout=30) as client,
    ):
        full = admin.put("/budget", json={"mode": "forge-full"}).raise_for_status().json()["tokens"]
        fast = admin.put("/budget", json={"mode": "forge-fast"}).raise_for_status().json()["tokens"]

        assert fast == full // 2
        assert called(client)


def test_a_run_outlives_its_container() -> None:
    submission = json.loads((ROOT / "config/examples/weather-run.json").read_text())
    with (
        running(added={"FORGE_PROXY_SERVER__ADMIN_KEYS": "made-up"}) as mine,
        httpx.Client(base_url=f"{mine.url}/admin/v1", headers={"Authorization": "Bearer made-up"}) as admin,
    ):
        path = f"/runs/{admin.post('/runs', json=submission).raise_for_status().json()['id']}"
        until(lambda: admin.get(path).json()["status"] == "completed", "the run is completed")
        before = mine.container(PROXY)
        mine.compose("up", "--detach", "--force-recreate", PROXY)
        until(lambda: is_ready(mine.url), "the new container is ready")

        assert mine.container(PROXY) != before
        assert admin.get(path).json()["status"] == "completed"


def test_stopping_lets_running_responses_finish(stack: Stack) -> None:
    with streams(stack.url, 4) as ends:
        stack.compose("stop")

    told = {service: stack.inspect(service)["State"]["ExitCode"] for service in (PROXY, LLAMA)}
    events = [json.loads(line)["event"] for line in stack.logged(PROXY)]
    stack.up()

    assert [end() for end in ends] == ["data: [DONE]"] * 4
    assert told == {PROXY: 0, LLAMA: 0}
    assert events.index("stopping") < events.index("stopped", events.index("stopping"))
    assert "answered" in events[events.index("stopping") :]


def test_stopping_waits_no_longer_than_the_drain_time() -> None:
    env = {PUBLIC: "true", "FORGE_PROXY_SERVER__DRAIN_SECONDS": "1"}
    words = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
    serve = ("serve", "--host", "0.0.0.0", "--backend", "embedded")
    container = docker("run", "-d", "-p", "127.0.0.1::8081", *words, IMAGE, *serve).stdout.strip()
    try:
        url = "http://" + docker("port", container, "8081").stdout.strip()
        until(lambda: is_ready(url), "it is ready")
        with streams(url, 16) as ends:
            docker("stop", "-t", "60", container)

        (told,) = json.loads(docker("inspect", container).stdout)
    finally:
        docker("rm", "-f", container)

    assert any(end() != "data: [DONE]" for end in ends)
    assert told["State"]["ExitCode"] == 0


@contextmanager
def streams(url: str, number: int) -> Generator[list[Callable[[], str]]]:
    """Send this many long streams, the first of which has begun. Return the last line of each once it has ended or was
    cut.
    """
    begun = Event()

    def stream() -> str:
        last = ""
        try:
            with httpx.stream("POST", url + PATH, json=LONG, timeout=60) as response:
                for line in response.iter_lines():
                    begun.set()
                    last = line or last
        except httpx.RemoteProtocolError:
            pass
        return last

    with ThreadPoolExecutor(number) as pool:
        asked = [pool.submit(stream) for _ in range(number)]
        assert begun.wait(30)
        yield [each.result for each in asked]


def called(client: httpx.Client) -> dict[str, Any]:
    """Return the arguments of the call in the response."""
    response = client.post(PATH, json=ASK).raise_for_status()
    assert response.headers["x-forge-outcome"] in ("clean", "rescued", "repaired", "retried")
    (call,) = response.json()["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    return json.loads(call["function"]["arguments"])


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False
