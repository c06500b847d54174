"""A model server that is down, rejects requests, breaks off or sends garbage."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.backends.probe import identify
from tests.fakes.processes import Process, closed_port, command, daemon
from tests.system.asking import PATH, TOOL, ask, error, events, text

both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
guarded_too = pytest.mark.parametrize("tools", [{}, {"tools": [TOOL]}], ids=["passed-through", "guarded"])


def test_a_server_that_is_down_is_a_502_with_its_url_and_the_cause() -> None:
    asked = [ask("says", stream=stream, **tools) for stream in (False, True) for tools in ({}, {"tools": [TOOL]})]
    with closed_port() as port, daemon("--backend-url", f"http://127.0.0.1:{port}") as proxy:
        answers = [httpx.post(proxy.url + PATH, json=body) for body in asked]
        answers.append(httpx.get(proxy.url + "/v1/models"))
        ready = httpx.get(proxy.url + "/readyz")

    assert [response.status_code for response in answers] == [502] * 5
    for said in map(error, answers):
        assert said["code"] == "backend_unreachable"
        assert f"http://127.0.0.1:{port}" in said["message"]
        assert "connection refused" in said["message"]
    assert ready.status_code == 503


@both
@guarded_too
def test_an_overflow_of_the_context_is_a_400_with_the_code_clients_act_on(
    client: httpx.Client, stream: bool, tools: dict[str, object]
) -> None:
    response = client.post(PATH, json=ask("overflows", stream=stream, **tools))

    assert response.status_code == 400
    said = error(response)
    assert said["code"] == "context_length_exceeded"
    assert said["type"] == "invalid_request_error"
    assert said["message"].startswith(
        "This model's maximum context length is 2048 tokens. However, your messages resulted in 5000 tokens."
    )
    assert said["message"].endswith("the request exceeds the available context size, try increasing it")


@both
@guarded_too
def test_a_busy_server_is_a_429_with_retry_after(client: httpx.Client, stream: bool, tools: dict[str, object]) -> None:
    response = client.post(PATH, json=ask("is-busy", stream=stream, **tools))

    assert (response.status_code, response.headers["retry-after"]) == (429, "7")
    said = error(response)
    assert (said["message"], said["type"], said["code"]) == ("slow down", "rate_limit_error", "rate_limit_exceeded")


@both
@pytest.mark.parametrize(
    ("model", "status", "word"), [("fails", 500, "no memory left"), ("fails-in-html", 502, "Bad Gateway")]
)
def test_an_error_of_the_server_keeps_its_status_and_message(
    client: httpx.Client, stream: bool, model: str, status: int, word: str
) -> None:
    response = client.post(PATH, json=ask(model, stream=stream))

    assert response.status_code == status
    assert word in error(response)["message"]


@both
@guarded_too
@pytest.mark.parametrize("model", ["babbles", "closes"])
def test_garbage_or_no_response_is_a_502_that_names_the_server(
    client: httpx.Client, server: Process, stream: bool, model: str, tools: dict[str, object]
) -> None:
    response = client.post(PATH, json=ask(model, stream=stream, **tools))

    assert response.status_code == 502
    assert server.url in error(response)["message"]


@pytest.mark.parametrize("model", ["dies", "stops-short", "errs-midway"])
def test_a_stream_that_broke_off_is_cut_without_an_end(client: httpx.Client, model: str) -> None:
    got: list[str] = []

    with (
        client.stream("POST", PATH, json=ask(model, stream=True)) as response,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        got.extend(response.iter_lines())

    assert text(events(got)) == "one "
    assert "data: [DONE]" not in got


def test_a_stream_that_broke_off_ends_with_an_error_event_if_configured(server: Process) -> None:
    with daemon("--backend-url", server.url, env={"FORGE_PROXY_SERVER__STREAM_ERRORS": "event"}) as proxy:
        answers = [
            httpx.post(proxy.url + PATH, json=ask(model, stream=True))
            for model in ("dies", "stops-short", "errs-midway")
        ]

    for answer in answers:
        *begun, last = events(answer.text.splitlines())
        assert text(begun) == "one "
        assert set(json.loads(last)) == {"error"}


@pytest.mark.parametrize("model", ["dies", "stops-short", "errs-midway"])
def test_a_whole_response_that_broke_off_is_an_error(client: httpx.Client, model: str) -> None:
    response = client.post(PATH, json=ask(model))

    assert response.status_code in (500, 502)
    assert error(response)["message"]


def test_a_stream_that_broke_off_leaves_no_traceback_in_the_log(proxy: Process, client: httpx.Client) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        client.post(PATH, json=ask("dies", stream=True), headers={"x-request-id": "broke-off"})

    proxy.wait_for("failed", request_id="broke-off")
    assert "Traceback" not in proxy.printed


@guarded_too
@pytest.mark.parametrize("model", ["always-streams", "streams-one-chunk"])
def test_a_stream_in_place_of_a_whole_response_is_assembled(
    client: httpx.Client, model: str, tools: dict[str, object]
) -> None:
    response = client.post(PATH, json=ask(model, **tools))

    assert response.status_code == 200
    body = response.json()
    assert body["object"] == "chat.completion"
    (choice,) = body["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("one two three", "stop")


@guarded_too
def test_a_whole_response_in_place_of_a_stream_is_streamed(client: httpx.Client, tools: dict[str, object]) -> None:
    with client.stream("POST", PATH, json=ask("always-whole", stream=True, **tools)) as response:
        *data, last = events(response.iter_lines())

    assert last == "[DONE]"
    assert {json.loads(event)["object"] for event in data} == {"chat.completion.chunk"}
    assert text(data) == "one two three"
    assert json.loads(data[-1])["choices"][0]["finish_reason"] == "stop"


@both
def test_the_named_model_replaces_names_unknown_to_the_server(server: Process, stream: bool) -> None:
    with daemon("--backend-url", server.url, "--model", "says") as proxy:
        answer = httpx.post(proxy.url + PATH, json=ask("gpt-9", stream=stream))

    assert answer.status_code == 200
    asked = json.loads(events(answer.text.splitlines())[0]) if stream else answer.json()
    assert asked["model"] == "gpt-9"


def test_a_silent_stream_is_kept_alive(server: Process) -> None:
    env = {"FORGE_PROXY_SERVER__FIRST_EVENT_SECONDS": "0.1", "FORGE_PROXY_SERVER__KEEPALIVE_SECONDS": "0.1"}
    with (
        daemon("--backend-url", server.url, env=env) as proxy,
        httpx.stream("POST", proxy.url + PATH, json=ask("hangs", stream=True)) as response,
    ):
        lines = (line for line in response.iter_lines() if line)
        kept = [json.loads(next(lines).removeprefix("data: ")) for _ in range(2)]

    assert [chunk["choices"][0]["delta"] for chunk in kept] == [{}, {}]


def test_a_forge_proxy_is_never_the_backend_of_another(proxy: Process) -> None:
    served = command("serve", "--port", "0", "--backend-url", proxy.url + "/v1")
    checked = command("check", "--port", "0", "--backend-url", proxy.url)

    assert served.code == 2
    assert (
        served.err
        == f"forge-proxy: backend.url {proxy.url}/v1 is a forge-proxy itself; name the model server behind it\n"
    )
    assert checked.code == 1
    assert "is a forge-proxy itself" in checked.out


@pytest.mark.parametrize("kind", [[], ["--backend", "openai"]], ids=["found-out", "named"])
def test_a_daemon_is_never_its_own_backend(kind: list[str]) -> None:
    with closed_port() as held:
        port = str(held)

    ended = command("serve", "--port", port, "--backend-url", f"http://127.0.0.1:{port}", *kind)

    assert ended.code == 2
    assert ended.err.startswith(f"forge-proxy: backend.url http://127.0.0.1:{port} is ")
    assert len(ended.err.splitlines()) == 1


async def test_the_kind_of_the_server_is_detected(proxy: Process, server: Process) -> None:
    http = AioHttp(connect_seconds=1, silence_seconds=1)
    try:
        with closed_port() as port:
            found = [await identify(url, http) for url in (proxy.url, server.url, f"http://127.0.0.1:{port}")]
    finally:
        await http.close()

    assert found == ["forge-proxy", "openai", None]


def test_check_prints_the_message_of_a_server_unchanged(server: Process, tmp_path: Path) -> None:
    # square brackets are markup to the library that prints the table
    ended = command("check", "--port", "0", "--backend-url", f"{server.url}/[/INST]")

    assert ended.code == 1
    assert "[/INST]" in ended.out
    assert "Traceback" not in ended.err
