"""`forge-proxy stop`: stops a daemon of this user, and waits until its process has ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from forge_proxy.backends.capability_cache import state_folder
from forge_proxy.core.errors import ForgeError
from forge_proxy.telemetry.running_daemons import RunningDaemon, is_running, list_running_daemons

_POLL_SECONDS = 0.05


class CannotStop(ForgeError):
    """No daemon runs, several run, or the daemon does not end."""


def stop(
    port: Annotated[int | None, typer.Option("--port", help="The port of the daemon; needed if several run.")] = None,
    seconds: Annotated[
        float, typer.Option("--timeout", help="Seconds to wait until it has ended.", min=0, max=3600)
    ] = 60,
) -> None:
    """Stop a daemon of this user on this machine, after its running responses have finished."""
    daemon = _choose(list_running_daemons(state_folder()), port)
    print(f"stopping forge-proxy {daemon.version} on port {daemon.port} (pid {daemon.pid})")
    _signal(daemon)
    until = time.monotonic() + seconds
    while is_running(daemon):
        if time.monotonic() > until:
            raise CannotStop(
                f"the daemon (pid {daemon.pid}) has not ended after {seconds:g} s; end it with: kill -9 {daemon.pid}"
            )
        time.sleep(_POLL_SECONDS)
    print("stopped")


def _choose(running: Sequence[RunningDaemon], port: int | None) -> RunningDaemon:
    """Select the daemon to stop. Raises `CannotStop`."""
    matching = [daemon for daemon in running if port in (None, daemon.port)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        ports = ", ".join(f"{daemon.port} (pid {daemon.pid})" for daemon in matching)
        raise CannotStop(f"several daemons run, on ports {ports}: choose one with --port")
    where = "" if port is None else f" on port {port}"
    others = f"; one runs on port {running[0].port}" if running else ""
    raise CannotStop(
        f"no forge-proxy of this user runs{where}{others}. One that systemd or a container runs is stopped there: "
        "systemctl stop forge-proxy, docker compose stop"
    )


def _signal(daemon: RunningDaemon) -> None:
    """Send SIGTERM to exactly this process; its id may have been reused. Raises `CannotStop`."""
    try:
        if sys.platform != "linux":
            os.kill(daemon.pid, signal.SIGTERM)
            return
        descriptor = os.pidfd_open(daemon.pid)
        try:
            if is_running(daemon):  # then the descriptor refers to the process that holds the lock
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        finally:
            os.close(descriptor)
    except ProcessLookupError:
        return
    except PermissionError as exc:
        raise CannotStop(f"not allowed to stop the daemon (pid {daemon.pid}): it runs as another user") from exc
