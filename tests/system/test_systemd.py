"""The messages that systemd receives from a real daemon over its notify socket."""

from __future__ import annotations

import signal
import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from forge_proxy.telemetry.systemd import Systemd
from tests.fakes.processes import ROOT, Process, daemon


@pytest.fixture
def heard(tmp_path: Path) -> Generator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(20)
        yield listening


def lines(heard: socket.socket) -> dict[str, str]:
    return dict(line.split("=", 1) for line in heard.recv(4096).decode().splitlines())


def test_systemd_receives_ready_watchdog_reloading_and_stopping(
    heard: socket.socket, tmp_path: Path, server: Process
) -> None:
    env = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    with daemon("--backend-url", server.url, env=env) as process:
        ready = lines(heard)
        process.send_signal(signal.SIGHUP)
        reloading, again = lines(heard), lines(heard)
        process.send_signal(signal.SIGTERM)
        stopping = lines(heard)

    assert ready == {"READY": "1", "STATUS": f"listening at {process.url}/v1"}
    assert reloading["RELOADING"] == "1"
    assert int(reloading["MONOTONIC_USEC"]) > 0
    assert again["READY"] == "1"
    assert stopping == {"STOPPING": "1"}


def test_watchdog_messages_are_sent_periodically(heard: socket.socket, tmp_path: Path, server: Process) -> None:
    env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"}
    with daemon("--backend-url", server.url, env=env):
        told = [lines(heard) for _ in range(4)]

    assert told[1:] == [{"WATCHDOG": "1"}] * 3


def test_an_abstract_socket_name_is_supported() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0forge-proxy-test")
        Systemd({"NOTIFY_SOCKET": "@forge-proxy-test"}).notify_stopping()

        assert listening.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, None),
        ({"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "30000000"}, 15.0),
        ({"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_of_another_process_is_ignored(environment: dict[str, str], seconds: float | None) -> None:
    systemd = Systemd(environment)

    systemd.ping_watchdog()  # with no listener there

    assert systemd.watchdog_seconds == seconds


def test_the_unit_allows_more_time_to_stop_than_the_drain_time() -> None:
    unit = (ROOT / "config/examples/forge-proxy.service").read_text()
    settings = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and not line.startswith("#"))

    assert int(settings["TimeoutStopSec"]) > 20
    assert settings["Type"] == "notify"  # which systemd 252 supports
    assert settings["ExecReload"] == "/bin/kill -HUP $MAINPID"
