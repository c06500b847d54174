"""The process pool of the daemon: a call that only it can parse, and its processes, which end with the daemon."""

from __future__ import annotations

import json
import signal

import httpx
import pytest

from tests.fakes.processes import Process, children, daemon, has_ended, until
from tests.system.asking import PATH, TOOL, ask


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_badly_broken_call_is_repaired_without_a_retry(client: httpx.Client, stream: bool) -> None:
    response = client.post(PATH, json=ask("calls-brokenly", tools=[TOOL], stream=stream))

    assert json.dumps('{"city": "a", "days": 1}') in response.text
    said = response.text if stream else "\n".join(f"{key}={value}" for key, value in response.headers.items())
    assert "x-forge-outcome=repaired" in said
    assert "x-forge-attempts=1" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_processes_of_the_pool_end_with_the_daemon(server: Process, number: int) -> None:
    with daemon("--backend-url", server.url) as proxy:
        httpx.post(proxy.url + PATH, json=ask("calls-brokenly", tools=[TOOL]), timeout=20)
        (child,) = children(proxy.pid)

        proxy.send_signal(number)

        proxy.wait()
        until(lambda: has_ended(child), "the process ends")


def test_a_computing_process_of_the_pool_ends_with_its_owner() -> None:
    owner = Process("tests.fakes.process_pool_owner")
    try:
        pid = owner.wait_for("spinning")["pid"]

        owner.send_signal(signal.SIGKILL)

        until(lambda: has_ended(pid), "the process ends")
    finally:
        owner.stop()
