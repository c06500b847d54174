"""Tells systemd how the daemon is (sd_notify), where it was started by it; elsewhere nothing is told.

systemd hears READY once requests are taken, RELOADING and READY around a reload, STOPPING, and a sign of life as often
as `WatchdogSec` of the unit wants it. The unit is in config/examples.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress


class Systemd:
    """The socket of `NOTIFY_SOCKET`, if there is one. Raises nothing: it is not worth a failure."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        given = os.environ if environment is None else environment
        self._address = given.get("NOTIFY_SOCKET", "")
        microseconds, owner = given.get("WATCHDOG_USEC", ""), given.get("WATCHDOG_PID", "")
        wanted = microseconds.isdigit() and owner in ("", str(os.getpid()))
        self.watchdog_seconds = int(microseconds) / 1e6 / 2 if self._address and wanted else None
        """How often a sign of life is due: twice in the time that systemd gives; None where it wants none."""

    def ready(self, status: str) -> None:
        """Requests are taken."""
        self._tell("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """The settings are being read; `ready` ends it."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """No more requests are taken, those under way are being finished."""
        self._tell("STOPPING=1")

    def alive(self) -> None:
        """The sign of life."""
        self._tell("WATCHDOG=1")

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.setblocking(False)
            notify.sendto("\n".join(lines).encode(), address)
