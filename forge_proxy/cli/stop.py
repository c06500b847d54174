"""`forge-proxy stop`: stops a daemon of this user, and waits until its process has ended."""

from __future__ import annotations

import os
import select
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
    if not _stop(daemon, seconds):
        raise CannotStop(
            f"the daemon (pid {daemon.pid}) has not ended after {seconds:g} s; end it with: kill -9 {daemon.pid}"
        )
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


def _stop(daemon: RunningDaemon, seconds: float) -> bool:
    """Send SIGTERM and return whether the process has ended in time. Raises `CannotStop`."""
    try:
        return _stop_process(daemon, seconds) if sys.platform == "linux" else _stop_by_id(daemon, seconds)
    except ProcessLookupError:
        return True
    except PermissionError as exc:
        raise CannotStop(f"not allowed to stop the daemon (pid {daemon.pid}): it runs as another user") from exc


def _stop_process(daemon: RunningDaemon, seconds: float) -> bool:
    """Signal exactly this process and wait for its end, which comes after the daemon has removed its registration."""
    descriptor = os.pidfd_open(daemon.pid)
    try:
        if not is_running(daemon):  # the process id may have been reused
            return True
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)  # to the process that holds the lock
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def _stop_by_id(daemon: RunningDaemon, seconds: float) -> bool:
    os.kill(daemon.pid, signal.SIGTERM)
    until = time.monotonic() + seconds
    while is_running(daemon):
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_SECONDS)
    return True
