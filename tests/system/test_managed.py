"""Failures of a managed model server under real requests."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from forge_proxy.backends.llama_server.instance import claim_port
from tests.fakes.llama_server import Fake
from tests.fakes.processes import Process, command, has_ended, until
from tests.system.asking import PATH, TOOL, JsonDict, ask, error, events, text
from tests.system.managed import over
from tests.system.test_stopping import refuses

MODES: dict[str, JsonDict] = {
    f"{guarding}-{kind}": {"stream": kind == "streamed", **tools}
    for kind in ("whole", "streamed")
    for guarding, tools in {"passed-through": {}, "guarded": {"tools": [TOOL]}}.items()
}
STREAMED_AT_ONCE: dict[str, JsonDict] = {"passed-through": {}, "guarded": {"tools": [TOOL], "tool_choice": "none"}}
"""Text of neither is buffered."""
IMPATIENT = {"FORGE_PROXY_BACKEND__SILENCE_SECONDS": "1"}
ADMIN_PAGES = ("status", "models", "budget", "backend", "backend/logs", "guardrails")


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def sends(pool: ThreadPoolExecutor, proxy: Process, body: JsonDict, request_id: str = "sent") -> Future[httpx.Response]:
    return pool.submit(httpx.post, proxy.url + PATH, json=body, headers={"X-Request-Id": request_id}, timeout=60)


@contextmanager
def opened(proxy: Process, body: JsonDict) -> Generator[Iterator[str]]:
    """Return the lines of a stream after its first chunk with text."""
    with httpx.stream("POST", proxy.url + PATH, json=body, timeout=60) as response:
        lines = response.iter_lines()
        assert any("one" in line for line in lines)
        yield lines


def ends(server: int) -> Callable[[], bool]:
    return lambda: has_ended(server)


def test_the_log_names_the_started_program_and_the_reason(fake: Fake) -> None:
    with over(fake, "--ctx", "1024", env={"FORGE_PROXY_BACKEND__LLAMA_SERVER__SLOTS": "2"}) as proxy:
        said = proxy.wait_for("backend")
        answer = httpx.post(proxy.url + PATH, json=ask("says"))

    assert said["kind"] == "llama-server"
    assert said["reason"] == f"a model file is configured, and its server: {fake.path}"
    assert answer.status_code == 200
    flags = fake.starts[0]["flags"]
    assert flags[flags.index("-c") + 1] == "2048"
    assert fake.starts[0]["key"] not in proxy.printed


def test_the_program_on_path_is_used_and_embedded_selects_the_wheel(fake: Fake, tmp_path: Path) -> None:
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    found = command("check", "--gguf", str(fake.model), "--port", "0", env=env)
    forced = command("check", "--gguf", str(fake.model), "--port", "0", "--backend", "embedded", env=env)

    assert f"a model file is configured, and llama-server is on PATH: {fake.path}" in found.out
    assert "ready" in found.out.splitlines()[-1]
    assert len(fake.starts) == 1
    assert forced.code == 1
    assert "embedded with" in forced.out


def test_a_llamafile_beside_the_model_is_used_with_its_own_options(tmp_path: Path) -> None:
    fake = Fake(tmp_path, "tool.llamafile", version="llamafile v0.9.3")
    fake.behind('exec "$REAL" "$@"')

    found = command("check", "--gguf", str(fake.model), "--port", "0", env={"PATH": "/usr/bin:/bin"})

    assert f"a llamafile is beside it: {fake.path}" in found.out
    assert fake.starts[0]["flags"][:2] == ["--server", "--nobrowser"]


def test_streams_whose_server_is_killed_are_cut_and_the_next_request_waits_for_the_next_server(fake: Fake) -> None:
    bodies = [ask("stalls", stream=True, user=name, **tools) for name, tools in STREAMED_AT_ONCE.items()]
    with over(fake) as proxy, ExitStack() as opening:
        streams = [opening.enter_context(opened(proxy, body)) for body in bodies]
        os.kill(fake.pid, signal.SIGKILL)
        for lines in streams:
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
        after = httpx.post(proxy.url + PATH, json=ask("says"), timeout=30)
        restarted = proxy.wait_for("model server", state="starting", detail="it was killed by SIGKILL (out of memory?)")

    assert after.status_code == 200
    assert restarted["level"] == "info"
    assert len(fake.starts) == 2


def test_requests_without_a_response_so_far_are_retried_on_the_next_server(fake: Fake) -> None:
    with over(fake) as proxy, ThreadPoolExecutor(len(MODES)) as pool:
        asked = {
            name: sends(pool, proxy, ask("slow", user=name, **fields), request_id=name)
            for name, fields in MODES.items()
        }  # fmt: skip
        until(lambda: fake.asked("slow") == len(MODES), "the server is asked")
        os.kill(fake.pid, signal.SIGKILL)
        for name in MODES:
            proxy.wait_for("retried", fault="response_lost", request_id=name)
        until(lambda: fake.asked("slow") == 2 * len(MODES), "the next server is asked")
        fake.go()
        answers = {name: future.result(30) for name, future in asked.items()}

    assert {name: (answer.status_code, "three" in answer.text) for name, answer in answers.items()} == dict.fromkeys(
        MODES, (200, True)
    )
    assert len(fake.starts) == 2


def test_a_request_that_kills_each_server_ends_with_a_retryable_error(fake: Fake) -> None:
    with over(fake) as proxy:
        answer = httpx.post(proxy.url + PATH, json=ask("kills"), timeout=60)

    assert answer.status_code == 503
    assert error(answer)["code"] in ("backend_restarting", "backend_down")


def test_a_crash_loop_is_reported_by_health_and_to_requests(fake: Fake) -> None:
    with over(fake) as proxy:
        server = fake.pid
        fake.behaves("crashes")
        os.kill(server, signal.SIGKILL)
        proxy.wait_for("model server", state="crash-loop")
        health = httpx.get(proxy.url + "/health")
        alive = httpx.get(proxy.url + "/healthz")
        answer = httpx.post(proxy.url + PATH, json=ask("says", stream=True))

    assert (health.status_code, alive.status_code, answer.status_code) == (503, 200, 503)
    assert "crashed 3 times in a row" in health.json()["error"]["message"]
    assert "out of memory" in error(answer)["message"]
    assert error(answer)["code"] == "backend_down"
    assert answer.headers["x-should-retry"] == "false"


def test_a_server_that_hangs_while_loading_ends_the_daemon_which_quotes_its_log(fake: Fake) -> None:
    fake.behaves("hangs")

    ended = command(
        "serve", "--port", "0", "--gguf", str(fake.model), "--llama-server", str(fake.path),
        env={"FORGE_PROXY_BACKEND__LLAMA_SERVER__LOAD_SILENCE_SECONDS": "2"},
    )  # fmt: skip

    assert ended.code == 1
    assert "it hangs: no log line, disk read or allocation for 2 s" in ended.err
    assert "load_model: loading model" in ended.err.splitlines()[-1]
    assert has_ended(fake.pid)


def test_while_a_model_loads_health_reports_progress_and_requests_are_kept_alive(fake: Fake) -> None:
    fake.behaves("loads when told")
    env = {"FORGE_PROXY_SERVER__FIRST_EVENT_SECONDS": "0.1", "FORGE_PROXY_SERVER__KEEPALIVE_SECONDS": "0.1"}
    with over(fake, env=env, ready=False) as proxy:
        until(lambda: "one more layer" in httpx.get(proxy.url + "/readyz").text, "it says how far it is")
        health = httpx.get(proxy.url + "/health")
        with httpx.stream("POST", proxy.url + PATH, json=ask("says", stream=True), timeout=20) as response:
            lines = response.iter_lines()
            kept = [next(line for line in lines if line) for _ in range(2)]
            (fake.folder / "loaded").touch()
            rest = events(lines)

    assert (health.status_code, health.json()["error"]["message"]) == (503, "Loading model")
    assert all(line.startswith("data: ") for line in kept)
    assert text(rest) == "one two three"


def test_a_daemon_stopped_while_a_model_loads_ends_at_once(fake: Fake) -> None:
    fake.behaves("loads when told")
    with over(fake, ready=False) as proxy:
        until(lambda: len(fake.starts) == 1, "the server is started")

        code = proxy.stop()

    assert (code, has_ended(fake.pid)) == (0, True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_the_daemon_not_even_behind_a_wrapper_script(fake: Fake, number: int) -> None:
    fake.behind('"$REAL" "$@"; true')
    fake.behaves("has a child")
    with over(fake) as proxy:
        server = fake.pid
        child = int((fake.folder / "child").read_text())

        proxy.send_signal(number)

        proxy.wait()
        until(ends(server), "the server ends")
        until(ends(child), "what it has started ends")


def test_twenty_open_streams_complete_when_the_daemon_stops(fake: Fake) -> None:
    env = {"FORGE_PROXY_BACKEND__LLAMA_SERVER__SLOTS": "20"}
    with over(fake, env=env) as proxy, ThreadPoolExecutor(20) as pool:
        server = fake.pid
        asked = [sends(pool, proxy, ask("waits", stream=True)) for _ in range(20)]
        until(lambda: fake.asked("waits") == 20, "all are asked")
        proxy.send_signal(signal.SIGTERM)
        until(lambda: refuses(proxy.url), "the daemon stops accepting")
        fake.go()
        answers = [future.result(30) for future in asked]
        code = proxy.wait()

    assert {text(events(answer.text.splitlines())) for answer in answers} == {"one two three"}
    assert all(answer.text.endswith("data: [DONE]\n\n") for answer in answers)
    assert (code, has_ended(server)) == (0, True)


def test_an_idle_server_is_unloaded_and_only_a_request_loads_it_again(fake: Fake) -> None:
    with over(fake, env={"FORGE_PROXY_BACKEND__LLAMA_SERVER__IDLE_UNLOAD_SECONDS": "0.3"}) as proxy:
        proxy.wait_for("model server", state="asleep")
        looked = [httpx.get(proxy.url + path) for path in ("/health", "/readyz", "/v1/models", "/healthz")]
        status, *rest = [httpx.get(f"{proxy.url}/admin/v1/{what}") for what in ADMIN_PAGES]
        starts = len(fake.starts)
        answer = httpx.post(proxy.url + PATH, json=ask("says", stream=True), timeout=30)

    assert [response.status_code for response in [*looked, status, *rest]] == [200] * (4 + len(ADMIN_PAGES))
    assert "asleep" in looked[1].text
    assert "says" in looked[2].text
    server = status.json()["backend"]["server"]
    assert (server["state"], server["pid"], starts) == ("asleep", None, 1)
    assert (text(events(answer.text.splitlines())), len(fake.starts)) == ("one two three", 2)


@pytest.mark.parametrize("limit", [None, 600], ids=["dev-full", "rlimit-fsize"])
def test_a_full_disk_under_the_log_harms_no_request(fake: Fake, tmp_path: Path, limit: int | None) -> None:
    log = Path("/dev/full") if limit is None else tmp_path / "log"
    with log.open("w") as full:
        proxy = Process(
            "forge_proxy", "serve", "--port", str(port := claim_port(0)), "--gguf", str(fake.model),
            "--llama-server", str(fake.path), stderr=full, forked=True,
        )  # fmt: skip
        if limit is not None:
            resource.prlimit(proxy.pid, resource.RLIMIT_FSIZE, (limit, limit))
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: not refuses(url) and httpx.get(url + "/readyz").status_code == 200, "it is ready")
            answers = [httpx.post(url + PATH, json=ask("says", tools=[TOOL], stream=s)) for s in (False, True)]
            switched = httpx.put(url + "/admin/v1/budget", json={"mode": "manual", "tokens": 512}, timeout=30)
        finally:
            code = proxy.stop()

    assert [answer.status_code for answer in [*answers, switched]] == [200] * 3
    assert limit is None or log.stat().st_size == limit
    assert code == 0
    assert has_ended(fake.pid)


def test_a_port_in_use_a_missing_model_and_a_missing_program_are_named(fake: Fake) -> None:
    server = ["--llama-server", str(fake.path)]
    with socket.create_server(("127.0.0.1", 0)) as taking:
        taken = taking.getsockname()[1]
        env = {"FORGE_PROXY_BACKEND__LLAMA_SERVER__PORT": str(taken)}
        port = command("serve", "--port", "0", "--gguf", str(fake.model), *server, env=env)
    model = command("serve", "--gguf", "missing.gguf", *server)
    program = command("serve", "--gguf", str(fake.model), "--llama-server", "/nowhere/llama-server")
    flag = command("serve", env={"FORGE_PROXY_BACKEND__LLAMA_SERVER__EXTRA": '["-c", "4096"]'})

    assert (port.code, model.code, program.code, flag.code) == (1, 2, 2, 2)
    assert f"port {taken} on 127.0.0.1: Address already in use" in port.err
    assert "backend.gguf: file not found: missing.gguf" in model.err
    assert "backend.llama_server.binary /nowhere/llama-server is not there" in program.err
    assert "backend.llama_server.extra: -c is set by forge-proxy: set backend.llama_server.context" in flag.err
    assert fake.starts == []


def answer_after_hang(fake: Fake, stream: bool) -> None:
    with over(fake, env=IMPATIENT) as proxy:
        hung = fake.pid
        os.kill(hung, signal.SIGSTOP)

        answer = httpx.post(proxy.url + PATH, json=ask("says", stream=stream), timeout=120)
        proxy.wait_for("model server", state="starting", detail="it stopped responding and was killed")

    assert (answer.status_code, "three" in answer.text) == (200, True)
    assert has_ended(hung)
    assert len(fake.starts) == 2


def cut_hung_stream(fake: Fake) -> None:
    with over(fake, env=IMPATIENT) as proxy:
        hung = fake.pid
        with opened(proxy, ask("stalls", stream=True)) as lines:
            os.kill(hung, signal.SIGSTOP)
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
        after = httpx.post(proxy.url + PATH, json=ask("says"), timeout=120)

    assert after.status_code == 200
    assert has_ended(hung)
    assert len(fake.starts) == 2


def test_a_server_that_hangs_is_replaced_and_requests_without_a_response_are_retried(tmp_path: Path) -> None:
    """Each case has its own daemon. A server counts as hung after 15 s, so the cases wait concurrently."""
    cases = {
        "whole": partial(answer_after_hang, stream=False),
        "streamed": partial(answer_after_hang, stream=True),
        "in mid-stream": cut_hung_stream,
    }
    with ThreadPoolExecutor(len(cases)) as pool:
        for name in cases:
            (tmp_path / name).mkdir()
        played = {name: pool.submit(play, Fake(tmp_path / name)) for name, play in cases.items()}

    assert {name: repr(each.exception()) for name, each in played.items()} == dict.fromkeys(cases, "None")


def test_a_server_without_the_memory_to_start_is_an_error_that_quotes_its_log(fake: Fake) -> None:
    fake.behind('ulimit -v 12000; exec "$REAL" "$@"')

    ended = command("check", "--gguf", str(fake.model), "--port", "0", "--llama-server", str(fake.path))

    assert ended.code == 1
    assert "could not be started: it exited with code" in ended.out
    assert "Traceback" not in ended.out + ended.err
