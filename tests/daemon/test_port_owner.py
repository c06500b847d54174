"""The command that stops the daemon on a port."""

from __future__ import annotations

from pathlib import Path

import pytest

from forge_proxy.daemon.port_owner import stop_command
from forge_proxy.telemetry.running_daemons import RunningDaemon


@pytest.mark.parametrize(
    ("ports", "command"),
    [
        ([8081], "forge-proxy stop"),
        ([8081, 9000], "forge-proxy stop --port 8081"),
        ([9000], ""),
        ([], ""),
    ],
)
def test_the_stop_command_addresses_only_that_daemon(ports: list[int], command: str) -> None:
    running = [RunningDaemon(pid=port, port=port, version="1", file=Path("x")) for port in ports]

    assert stop_command(8081, running) == command
