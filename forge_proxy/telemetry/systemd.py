"""Notifies systemd of the daemon's state (sd_notify). Does nothing if systemd did not start the daemon.

Sends READY once the daemon accepts requests, RELOADING and READY around a reload, STOPPING, and WATCHDOG pings if the
unit sets `WatchdogSec`. The unit is in config/examples.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress


class Systemd:
    """Client of the socket in `NOTIFY_SOCKET`, if set. Ignores errors: a lost notification must not stop the daemon."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        self._address = variables.get("NOTIFY_SOCKET", "")
        microseconds, owner = variables.get("WATCHDOG_USEC", ""), variables.get("WATCHDOG_PID", "")
        is_enabled = microseconds.isdigit() and owner in ("", str(os.getpid()))
        self.watchdog_seconds = int(microseconds) / 1e6 / 2 if self._address and is_enabled else None
        """Interval of watchdog pings: half of systemd's timeout. None if the watchdog is disabled."""

    def notify_ready(self, status: str) -> None:
        """Report that the daemon accepts requests."""
        self._notify("READY=1", f"STATUS={status}")

    def notify_reloading(self) -> None:
        """Report that the settings are being reloaded; `notify_ready` reports the end."""
        self._notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def notify_stopping(self) -> None:
        """Report that the daemon accepts no new requests and finishes the running ones."""
        self._notify("STOPPING=1")

    def ping_watchdog(self) -> None:
        """Send a watchdog ping."""
        self._notify("WATCHDOG=1")

    def _notify(self, *lines: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.setblocking(False)
            notify.sendto("\n".join(lines).encode(), address)
