"""What SIGHUP means to this process: it depends on who started it."""

from __future__ import annotations

import os
import signal
from typing import Literal, TypeAlias

Hangup: TypeAlias = Literal["reload", "stop", "ignore"]


def prepare_hangup() -> Hangup:
    """Decide what SIGHUP does, and block it if it means reload: before the daemon handles it, it would end the process.

    It stops a daemon that was started in a terminal, so that it does not outlive it. It is ignored under nohup.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return "ignore"
    if _has_terminal():
        return "stop"
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    return "reload"


def _has_terminal() -> bool:
    """Whether this process has a controlling terminal, whose end sends it a SIGHUP."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
