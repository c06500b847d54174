"""Detects whether a forge-proxy already uses a port, for the "port is already in use" message."""

from __future__ import annotations

import http.client
from collections.abc import Sequence

from forge_proxy.backends.probe import OUR_HEADER
from forge_proxy.telemetry.running_daemons import RunningDaemon

_SECONDS = 1.0
_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  # nothing is bound to it


def stop_command(port: int, running: Sequence[RunningDaemon]) -> str:
    """Return the command that stops the forge-proxy on a port, or "" if it is not this user's."""
    if not any(daemon.port == port for daemon in running):
        return ""
    return "forge-proxy stop" if len(running) == 1 else f"forge-proxy stop --port {port}"


def find_daemon(host: str, port: int, running: Sequence[RunningDaemon]) -> str:
    """Describe the forge-proxy at an address, with its process id if it is this user's; "" if there is none."""
    version = _version(_ANY_HOST.get(host, host), port)
    own = next((daemon for daemon in running if daemon.port == port), None)
    if version is None and own is None:  # a daemon that is starting does not answer yet
        return ""
    pid = f" (pid {own.pid})" if own else ", not started by this user"
    return f"forge-proxy {version or (own.version if own else '')}{pid}"


def _version(host: str, port: int) -> str | None:
    connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
    try:
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        return connection.getresponse().getheader(OUR_HEADER)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
