"""A model server that fails before, at and after the first byte of its response: what exactly clients receive."""

from __future__ import annotations

import json
from collections.abc import Generator

import httpx
import pytest

from tests.fakes.processes import Process, daemon, model_server
from tests.system.asking import PATH, TOOL, JsonDict, ask, error, events, text

SILENCE = 0.4
"""Seconds of silence after which the daemon aborts the response; half an hour by default (see below)."""
GUARDED: JsonDict = {"tools": [TOOL]}
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
guarded_too = pytest.mark.parametrize("tools", [{}, GUARDED], ids=["passed-through", "guarded"])

FIRST = {
    "closes": (502, "backend_broke_off"),
    "resets": (502, "backend_broke_off"),
    "speaks-no-http": (502, "backend_broke_off"),
    "babbles": (502, "backend_broke_off"),
    "breaks-off-whole": (502, "backend_broke_off"),
    "hangs": (504, "backend_timeout"),
    "errs-under-200": (500, None),
    "errs-in-its-first-event": (500, None),
}
"""Faults before the first byte: status and code, streamed or not."""
MIDWAY = {
    "dies": (502, "backend_broke_off"),
    "resets-midway": (502, "backend_broke_off"),
    "stops-short": (502, "backend_broke_off"),
    "babbles-midway": (502, "backend_broke_off"),
    "stalls": (504, "backend_timeout"),
    "errs-midway": (500, None),
}
"""Faults after it: status and code of a whole response, and the code in an error event."""


@pytest.fixture(scope="module")
def impatient(server: Process) -> Generator[Process]:
    env = {"FORGE_PROXY_BACKEND__SILENCE_SECONDS": str(SILENCE)}
    with daemon("--backend-url", server.url, env=env) as process:
        yield process


@pytest.fixture(scope="module")
def telling(server: Process) -> Generator[Process]:
    env = {"FORGE_PROXY_BACKEND__SILENCE_SECONDS": str(SILENCE), "FORGE_PROXY_SERVER__STREAM_ERRORS": "event"}
    with daemon("--backend-url", server.url, env=env) as process:
        yield process


@both
@guarded_too
@pytest.mark.parametrize("model", FIRST)
def test_a_fault_before_the_first_byte_has_its_own_status(
    impatient: Process, model: str, tools: JsonDict, stream: bool
) -> None:
    response = httpx.post(impatient.url + PATH, json=ask(model, stream=stream, **tools))

    said = error(response)
    assert (response.status_code, said["code"]) == FIRST[model]
    assert said["type"] == "server_error"


@guarded_too
@pytest.mark.parametrize("model", MIDWAY)
def test_a_whole_response_that_fails_midway_is_an_error_without_text(
    impatient: Process, model: str, tools: JsonDict
) -> None:
    response = httpx.post(impatient.url + PATH, json=ask(model, **tools))

    assert (response.status_code, error(response)["code"]) == MIDWAY[model]
    assert "one " not in response.text


@both
def test_a_response_that_breaks_off_before_anything_was_sent_is_retried(impatient: Process, stream: bool) -> None:
    body = ask("dies-twice", stream=stream, user=f"retried-{stream}", **GUARDED)

    response = httpx.post(impatient.url + PATH, json=body, headers={"x-request-id": f"retried-{stream}"})

    answer = text(events(response.text.splitlines())) if stream else response.json()["choices"][0]["message"]["content"]
    assert (response.status_code, answer) == (200, "one two three")
    line = impatient.wait_for("retried", request_id=f"retried-{stream}", fault="response_lost")
    assert "was interrupted" in line["reason"]


@pytest.mark.parametrize("model", MIDWAY)
def test_a_guarded_stream_with_nothing_sent_fails_like_a_whole_response(impatient: Process, model: str) -> None:
    response = httpx.post(impatient.url + PATH, json=ask(model, stream=True, **GUARDED))

    assert (response.status_code, error(response)["code"]) == MIDWAY[model]
    assert "one " not in response.text


@pytest.mark.parametrize("model", MIDWAY)
def test_a_stream_that_fails_midway_is_cut_and_never_ended(impatient: Process, model: str) -> None:
    got: list[str] = []

    with (
        httpx.stream("POST", impatient.url + PATH, json=ask(model, stream=True)) as response,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        got.extend(response.iter_lines())

    assert response.status_code == 200
    assert text(events(got)) == "one "
    assert not any("[DONE]" in line or "error" in line or "no JSON" in line for line in got)


@pytest.mark.parametrize("model", MIDWAY)
def test_a_stream_that_fails_midway_ends_with_its_error_if_configured(telling: Process, model: str) -> None:
    response = httpx.post(telling.url + PATH, json=ask(model, stream=True))

    *begun, last = events(response.text.splitlines())
    assert response.status_code == 200
    assert text(begun) == "one "
    said = json.loads(last)["error"]
    assert set(said) == {"message", "type", "param", "code"}
    assert (said["type"], said["code"]) == ("server_error", MIDWAY[model][1])


@both
@guarded_too
def test_a_fault_before_the_first_byte_has_its_own_status_with_error_events_too(
    telling: Process, stream: bool, tools: JsonDict
) -> None:
    response = httpx.post(telling.url + PATH, json=ask("closes", stream=stream, **tools))

    assert (response.status_code, error(response)["code"]) == (502, "backend_broke_off")


@guarded_too
def test_silence_after_the_headers_cuts_the_stream(server: Process, tools: JsonDict) -> None:
    env = {
        "FORGE_PROXY_BACKEND__SILENCE_SECONDS": str(SILENCE),
        "FORGE_PROXY_SERVER__FIRST_EVENT_SECONDS": "0.05",
        "FORGE_PROXY_SERVER__KEEPALIVE_SECONDS": "0.05",
    }
    got: list[str] = []
    with (
        daemon("--backend-url", server.url, env=env) as proxy,
        httpx.stream("POST", proxy.url + PATH, json=ask("hangs", stream=True, **tools)) as response,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        got.extend(response.iter_lines())

    assert response.status_code == 200
    assert events(got)
    assert not any("[DONE]" in line for line in got)


@guarded_too
def test_a_stream_is_kept_alive_until_a_slow_server_sends_its_first_byte(
    tools: JsonDict,
) -> None:
    """Like 90 s at the defaults: headers after 10 s, then a chunk every 15 s, here a hundredth of each.

    Only `silence_seconds` would end it, which is 1,800: nothing else in the daemon limits the duration of a response.
    """
    env = {"FORGE_PROXY_SERVER__FIRST_EVENT_SECONDS": "0.1", "FORGE_PROXY_SERVER__KEEPALIVE_SECONDS": "0.15"}
    waited, got = 0, list[str]()
    body = ask("slow", stream=True, **tools)
    with (
        model_server() as server,
        daemon("--backend-url", server.url, env=env) as proxy,
        httpx.stream("POST", proxy.url + PATH, json=body, timeout=10) as response,
    ):
        for line in response.iter_lines():
            got.append(line)
            waited += line.startswith("data: ") and waited < 6
            if waited == 6:
                httpx.post(server.url + "/go")

    assert response.headers["content-type"].startswith("text/event-stream")
    kept = [json.loads(event)["choices"][0]["delta"] for event in events(got)[:6]]
    assert kept == [{}] * 6
    assert text(events(got)) == "one two three"
    assert events(got)[-1] == "[DONE]"
