"""`forge-proxy logs` with a real daemon: filters, reconnecting, and how it ends."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager

import httpx
import pytest

from tests.fakes.processes import ROOT, Process, command, daemon, environment, free_port, model_server
from tests.system.asking import PATH, ask


@pytest.fixture(scope="module")
def server() -> Generator[Process]:
    with model_server() as process:
        yield process


@contextmanager
def following(url: str, *words: str) -> Generator[Process]:
    """The command, which prints a JSON line for each event."""
    process = Process("forge_proxy", "logs", "--follow", "--url", url, *words, forked=True)
    try:
        yield process
    finally:
        process.stop()


def send(proxy: Process, request_id: str, model: str = "says") -> None:
    headers = {"x-request-id": request_id, "user-agent": "aider/0.86"}
    httpx.post(proxy.url + PATH, json=ask(model), headers=headers, timeout=20)


def test_stored_events_are_printed_and_filtered(server: Process) -> None:
    with daemon("--backend-url", server.url) as proxy:
        send(proxy, "first")
        send(proxy, "second", model="unknown")
        everything = command("logs", "--url", proxy.url)
        by_request = command("logs", "--url", proxy.url, "--request", "first")
        by_event = command("logs", "--url", proxy.url, "--event", "failed", "--client", "aider", "--level", "warning")
        latest = command("logs", "--url", proxy.url, "-n", "1")
        unknown = command("logs", "--url", proxy.url, "--event", "fialed")

    assert '"event": "answered"' in everything.out
    assert '"event": "backend slots"' in everything.out
    assert [by_request.out.count(name) for name in ("\n", '"request_id": "first"')] == [1, 1]
    assert [by_event.out.count(name) for name in ("\n", '"request_id": "second"')] == [1, 1]
    assert latest.out.count("\n") == 1
    assert (unknown.code, unknown.out) == (1, "")
    assert "event.0" in unknown.err
    assert "'failed'" in unknown.err


def test_it_ends_with_the_daemon_and_with_ctrl_c(server: Process) -> None:
    with daemon("--backend-url", server.url) as proxy, following(proxy.url) as stays, following(proxy.url) as leaves:
        send(proxy, "one")
        stays.wait_for("answered", request_id="one", program="aider/0.86")
        leaves.wait_for("answered", request_id="one")
        leaves.send_signal(signal.SIGINT)
        assert leaves.wait() == 0
        assert "Traceback" not in leaves.printed
        proxy.stop()

        assert stays.wait() == 0
    assert stays.printed.splitlines()[-1] == "forge-proxy: the daemon is stopping"


def test_it_continues_after_a_killed_daemon(server: Process) -> None:
    port = ("--port", str(free_port()))
    with daemon("--backend-url", server.url, *port) as killed, following(killed.url) as follower:
        send(killed, "before")
        follower.wait_for("answered", request_id="before")
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        with daemon("--backend-url", server.url, *port) as proxy:
            send(proxy, "after")
            follower.wait_for("answered", request_id="after")

    assert "forge-proxy: the connection to the daemon was lost; reconnecting" in follower.printed
    assert "may be missing" in follower.printed
    assert follower.printed.count('"request_id": "before"') == 1


def test_it_is_readable_on_a_terminal(server: Process) -> None:
    with daemon("--backend-url", server.url) as proxy:
        send(proxy, "\x7e-one")
        ours, its = pty.openpty()
        with closing(os.fdopen(ours, "rb", buffering=0)) as terminal:
            words = ["logs", "--url", proxy.url, "--event", "answered"]
            subprocess.run(
                [sys.executable, "-m", "forge_proxy", *words], cwd=ROOT, env=environment({"TERM": "dumb"}),
                stdout=its, timeout=60, check=True,
            )  # fmt: skip
            os.close(its)
            printed = terminal.read(10_000).decode()

    assert "  answered        model=says  outcome=passthrough  attempts=1" in printed
    assert printed.rstrip().endswith("~-one")


def test_a_reader_that_ends_first_is_no_error(server: Process) -> None:
    with daemon("--backend-url", server.url) as proxy:
        for number in range(30):
            send(proxy, f"one-{number}")
        line = f"{sys.executable} -m forge_proxy logs --url {proxy.url} | head -1"
        ended = subprocess.run(
            ["sh", "-c", line], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60, check=True
        )

    assert ended.stdout.count("\n") == 1
    assert ended.stderr == ""
