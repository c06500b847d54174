"""Requests under way at a real daemon: what a follower sees, and what a client gets whose request is cancelled."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest

from tests.fakes.processes import Process, daemon, model_server
from tests.system.asking import PATH, ask, error

STREAM = "/admin/v1/requests/stream"


@pytest.fixture(scope="module")
def server() -> Generator[Process]:
    with model_server(slots=1) as process:
        yield process


@pytest.fixture(scope="module")
def proxy(server: Process) -> Generator[Process]:
    with daemon("--backend-url", server.url) as process:
        yield process


@contextmanager
def following(url: str) -> Generator[Iterator[list[dict[str, Any]]]]:
    """Yield the snapshots of the requests under way."""
    with httpx.stream("GET", url + STREAM, timeout=20) as response:
        lines = (line for line in response.iter_lines() if line.startswith('data: {"requests"'))
        yield (json.loads(line.removeprefix("data: "))["requests"] for line in lines)


def wait_for(pictures: Iterator[list[dict[str, Any]]], request_id: str, phase: str) -> dict[str, Any]:
    return next(
        one for picture in pictures for one in picture if (one["request_id"], one["phase"]) == (request_id, phase)
    )


def cancel(proxy: Process, request_id: str) -> Any:
    return httpx.post(f"{proxy.url}/admin/v1/requests/{request_id}/cancel", timeout=20).raise_for_status().json()


def test_a_follower_sees_running_and_queued_requests(proxy: Process) -> None:
    with ThreadPoolExecutor(2) as pool, following(proxy.url) as pictures:
        for name in ("first", "second"):
            body = ask("hangs", stream=True)
            pool.submit(httpx.post, proxy.url + PATH, json=body, headers={"x-request-id": name}, timeout=20)
            if name == "first":
                wait_for(pictures, name, "prefill")
        queued = wait_for(pictures, "second", "queued")
        cancel(proxy, "first")
        started = wait_for(pictures, "second", "prefill")
        cancel(proxy, "second")

    assert (queued["queue_position"], started["queue_position"]) == (1, None)
    assert queued["elapsed"] < started["elapsed"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_whose_request_is_cancelled_gets_an_error_and_does_not_retry(proxy: Process, stream: bool) -> None:
    name = f"sdk-{stream}"
    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="none", max_retries=2, timeout=20) as client:

        def send() -> Any:
            create = client.chat.completions.create
            return create(
                model="hangs", messages=[{"role": "user", "content": "x"}], stream=stream,
                extra_headers={"x-request-id": name},
            )  # fmt: skip

        with ThreadPoolExecutor(1) as pool, following(proxy.url) as pictures:
            sent = pool.submit(send)
            wait_for(pictures, name, "prefill" if stream else "generating")
            assert cancel(proxy, name) == {"request_id": name, "cancelled": 1}
            failure = sent.exception(20)

    assert isinstance(failure, openai.InternalServerError)
    assert (failure.status_code, failure.code) == (503, "request_cancelled")
    line = proxy.wait_for("failed", request_id=name)
    assert line["error"] == "the request was cancelled by the operator of forge-proxy"
    assert proxy.printed.count(f'"request_id":"{name}"') <= 2  # `failed`, and not the `abandoned` of a second attempt


def test_a_stream_that_has_begun_is_broken_off(proxy: Process) -> None:
    with following(proxy.url) as pictures:
        headers = {"x-request-id": "begun"}
        with httpx.stream("POST", proxy.url + PATH, json=ask("waits", stream=True), headers=headers) as response:
            lines = response.iter_lines()
            next(lines)
            wait_for(pictures, "begun", "generating")
            cancel(proxy, "begun")
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)


def test_an_unknown_request_is_a_404(proxy: Process) -> None:
    answer = httpx.post(f"{proxy.url}/admin/v1/requests/unknown/cancel")

    assert answer.status_code == 404
    assert error(answer)["code"] == "request_not_active"


def test_followers_do_not_delay_the_end_of_the_daemon(server: Process) -> None:
    with daemon("--backend-url", server.url) as ends:
        with httpx.stream("GET", ends.url + STREAM, timeout=20) as response:
            lines = response.iter_lines()
            next(lines)
            ends.send_signal(signal.SIGTERM)
            stopped_at = time.monotonic()
            rest = [line for line in lines if line and not line.startswith(":")]
        assert ends.wait() == 0

    assert rest == ["event: stopping", 'data: {"message":"the daemon is stopping"}']
    assert time.monotonic() - stopped_at < 5
