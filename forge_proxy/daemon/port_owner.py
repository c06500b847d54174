"""Finds out whether the program that has a port is a forge-proxy, for the message of a daemon that cannot have it."""

from __future__ import annotations

import http.client
from collections.abc import Sequence

from forge_proxy.backends.probe import OUR_HEADER
from forge_proxy.telemetry.running_daemons import RunningDaemon

_SECONDS = 1.0
_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  # nothing is bound to it


def stop_command(port: int, running: Sequence[RunningDaemon]) -> str:
    """The command that stops the forge-proxy on a port; empty if this user does not run it."""
    if not any(daemon.port == port for daemon in running):
        return ""
    return "forge-proxy stop" if len(running) == 1 else f"forge-proxy stop --port {port}"


def find_daemon(host: str, port: int, running: Sequence[RunningDaemon]) -> str:
    """Describe the forge-proxy at an address, with its process id if this user runs it; empty if there is none."""
    version = _version(_ANY_HOST.get(host, host), port)
    mine = next((daemon for daemon in running if daemon.port == port), None)
    if version is None and mine is None:  # one that is just starting does not answer yet
        return ""
    pid = f" (pid {mine.pid})" if mine else ", which this user has not started"
    return f"forge-proxy {version or (mine.version if mine else '')}{pid}"


def _version(host: str, port: int) -> str | None:
    connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
    try:
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        return connection.getresponse().getheader(OUR_HEADER)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
