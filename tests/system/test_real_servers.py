"""The same faults on real llama.cpp servers: the embedded one, and by `make system-llama` a real llama-server."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.backends.llama_server.manager import ServerManager, SwitchFailed
from forge_proxy.backends.llama_server.programs import TINY_MODEL
from forge_proxy.daemon import EngineAssembly, assemble
from forge_proxy.settings import load as load_settings
from tests.fakes.processes import Process, children, command, daemon, has_ended, until
from tests.live.weather import ASK_PARIS, TOOLS, says
from tests.system.asking import PATH, JsonDict, ask
from tests.system.load import load

MODEL = "tiny-tools"
CLIENTS = 8
BINARY = os.environ.get("FORGE_TEST_LLAMA_SERVER", "")
"""The real llama-server."""
SECONDS = float(os.environ.get("FORGE_TEST_SWITCH_SECONDS", "0"))
"""Seconds for which budgets are switched under load; by default there are a few switches."""
LONG = says("word " * 1500)
ENDLESS = {"stream": True, "max_tokens": 1900, "ignore_eos": True}


@pytest.fixture(params=["embedded", pytest.param("llama-server", marks=pytest.mark.llama)])
def backend(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings that start it with the test model."""
    if request.param == "embedded":
        return {"kind": "embedded"}
    return {"gguf": str(TINY_MODEL), "llama_server": {"binary": BINARY, "slots": 2}}


@contextmanager
def over(backend: dict[str, Any], env: dict[str, str] | None = None) -> Generator[Process]:
    binary = ["--gguf", str(TINY_MODEL), "--llama-server", BINARY] if "gguf" in backend else ["--backend", "embedded"]
    slots = {"FORGE_PROXY_BACKEND__LLAMA_SERVER__SLOTS": "2"}
    with daemon(*binary, env={**slots, **(env or {})}) as proxy:
        proxy.wait_for("ready")
        yield proxy


def server_of(proxy: Process) -> int:
    """The process of the server, which the reaper has started."""
    (launcher,) = children(proxy.pid, pool=False)
    (server,) = children(launcher)
    return server


def test_one_that_is_killed_in_mid_stream_is_started_again(backend: dict[str, Any]) -> None:
    with over(backend) as proxy:
        server = server_of(proxy)
        with httpx.stream("POST", proxy.url + PATH, json=ask(MODEL, **ENDLESS), timeout=30) as response:
            lines = response.iter_lines()
            next(lines)
            os.kill(server, signal.SIGKILL)
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
        answer = httpx.post(proxy.url + PATH, json=ask(MODEL, max_tokens=5), timeout=30)
        ready = httpx.get(proxy.url + "/readyz")

    assert (answer.status_code, ready.status_code) == (200, 200)
    assert has_ended(server)


@pytest.mark.parametrize("victim", ["launcher", "daemon"])
def test_nothing_outlives_the_launcher_or_the_daemon(backend: dict[str, Any], victim: str) -> None:
    with over(backend) as proxy:
        (launcher,) = children(proxy.pid, pool=False)
        server = server_of(proxy)

        os.kill(launcher if victim == "launcher" else proxy.pid, signal.SIGKILL)

        until(lambda: has_ended(server) and has_ended(launcher), "both end")


def test_twenty_open_streams_complete_when_the_daemon_stops(backend: dict[str, Any]) -> None:
    env = {"FORGE_PROXY_SERVER__FIRST_EVENT_SECONDS": "0.1"}  # so that those that wait for a slot are open too
    with over(backend, env) as proxy, ExitStack() as opening:
        server = server_of(proxy)
        body = ask(MODEL, stream=True, max_tokens=20, ignore_eos=True)
        streams = [
            opening.enter_context(httpx.stream("POST", proxy.url + PATH, json=body, timeout=60)) for _ in range(20)
        ]
        proxy.send_signal(signal.SIGTERM)
        ends = [[*stream.iter_lines()][-2:] for stream in streams]
        code = proxy.wait()

    assert ends == [["data: [DONE]", ""]] * 20
    assert (code, has_ended(server)) == (0, True)


def test_a_file_that_is_not_a_model_is_reported_with_the_servers_log(backend: dict[str, Any], tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"x" * 100)
    options = ["--llama-server", BINARY] if "gguf" in backend else ["--backend", "embedded"]

    ended = command("serve", "--port", "0", "--gguf", str(broken), *options)

    assert ended.code == 1
    assert f"with {broken} could not be started: it exited with code 1: gguf_init" in ended.err


def test_an_idle_server_is_unloaded_and_loaded_again(backend: dict[str, Any]) -> None:
    with over(backend, {"FORGE_PROXY_BACKEND__LLAMA_SERVER__IDLE_UNLOAD_SECONDS": "0.3"}) as proxy:
        proxy.wait_for("model server", state="asleep")
        gone = children(proxy.pid, pool=False)
        looked = httpx.get(proxy.url + "/health").status_code
        answer = httpx.post(proxy.url + PATH, json=ask(MODEL, max_tokens=5), timeout=30)

    assert (gone, looked, answer.status_code) == ([], 200, 200)


async def test_budgets_switched_under_load_lose_no_request(backend: dict[str, Any]) -> None:
    """The figures are on stdout: `pytest -rP` shows them."""
    body = {**ask(MODEL, max_tokens=60), "messages": ASK_PARIS, "tools": TOOLS}
    half, some, full = {"mode": "forge-fast"}, {"mode": "manual", "tokens": 1536}, {"mode": "forge-full"}
    wishes = [(half, 1024), (some, 1536), (full, 2048)]
    took: list[float] = []
    with over(backend) as proxy:
        async with load(proxy.url, body) as answered, httpx.AsyncClient(base_url=proxy.url, timeout=60) as operator:
            began = time.monotonic()
            for wish, tokens in cycle(wishes):
                await asyncio.sleep(5 if SECONDS else 1)
                asked = time.monotonic()
                switched = await operator.put("/admin/v1/budget", json=wish)
                took.append(time.monotonic() - asked)
                said = switched.json()
                assert (switched.status_code, said["tokens"], said["window"]) == (200, tokens, tokens), switched.text
                (card,) = (await operator.get("/v1/models")).json()["data"]
                assert card["max_context"] == tokens
                if len(took) >= len(wishes) and time.monotonic() - began >= SECONDS:
                    break

    sys.stdout.write(f"{len(took)} switches, the longest in {max(took):.1f} s; {answered.in_words}\n")
    assert min(answered.each) > 0


def test_the_error_for_a_prompt_over_the_budget_of_a_managed_server_has_the_numbers(backend: dict[str, Any]) -> None:
    bodies: dict[str, JsonDict] = {
        f"{stream=}, {len(tools)=}": {**ask(MODEL, stream=stream, **tools), "messages": LONG}
        for stream in (False, True)
        for tools in ({}, {"tools": TOOLS})
    }
    with over(backend) as proxy:
        halved = httpx.put(proxy.url + "/admin/v1/budget", json={"mode": "forge-fast"}, timeout=30)
        answers = {name: httpx.post(proxy.url + PATH, json=body, timeout=30) for name, body in bodies.items()}

    errors = {name: (answer.status_code, answer.json()["error"]) for name, answer in answers.items()}
    assert halved.status_code == 200
    assert {name: (status, error["code"], error["param"]) for name, (status, error) in errors.items()} == dict.fromkeys(
        bodies, (400, "context_length_exceeded", "messages")
    )
    assert {name: tokens_named(error["message"]) > 1500 for name, (_, error) in errors.items()} == dict.fromkeys(
        bodies, True
    )


def tokens_named(message: str) -> int:
    """Return the number of tokens of the prompt in the message; 0 if it does not name the window too."""
    said = re.match(r"This model's maximum context length is 1024 tokens\. However, .* (\d+) tokens", message)
    return int(said[1]) if said else 0


async def test_a_failed_switch_under_load_is_reverted_and_loses_no_request(
    backend: dict[str, Any], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"x" * 100)
    async with loaded(backend) as (parts, manager, client):
        spec = manager.status().spec
        stopping = asyncio.Event()
        asking = [asyncio.create_task(ask_on(client, number, stopping)) for number in range(CLIENTS)]
        with pytest.raises(SwitchFailed, match="the previous configuration runs again"):
            await switch(parts, manager, replace(spec, model=broken))
        stopping.set()
        answered = [await task for task in asking]

        assert (manager.status().state, manager.status().spec) == ("ready", spec)

    assert min(answered) > 0


@asynccontextmanager
async def loaded(backend: dict[str, Any]) -> AsyncGenerator[tuple[EngineAssembly, ServerManager, httpx.AsyncClient]]:
    """A daemon in this process, its server loaded, and a client of its application."""
    async with assemble(load_settings(None, {"backend": backend}), lambda _: None) as parts:
        await parts.load()
        assert parts.manager
        app = create_app(parts.engine, parts.backend, ServerConfig())
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=120) as client:
            yield parts, parts.manager, client


async def switch(parts: EngineAssembly, manager: ServerManager, spec: LaunchSpec) -> None:
    """Switch as the admin API does."""
    assert parts.switching
    await parts.switching.switch(lambda: manager.ensure(spec, drain_seconds=0), drain_seconds=60)


async def ask_on(client: httpx.AsyncClient, number: int, stopping: asyncio.Event) -> int:
    """Send requests repeatedly. Return how many were answered, which must be all."""
    answered = 0
    while not stopping.is_set():
        stream = (number + answered) % 2 == 0
        response = await client.post(PATH, json=ask(MODEL, stream=stream, max_tokens=20, ignore_eos=True))
        assert response.status_code == 200, response.text
        assert response.text.endswith("data: [DONE]\n\n") if stream else response.json()["choices"]
        answered += 1
    return answered
