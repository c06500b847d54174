"""Decides what SIGHUP does to this process, depending on how it was started."""

from __future__ import annotations

import os
import signal
from typing import Literal, TypeAlias

Hangup: TypeAlias = Literal["reload", "stop", "ignore"]


def prepare_hangup() -> Hangup:
    """Decide what SIGHUP does, and block it if it means reload: until the daemon handles it, it would end the process.

    SIGHUP stops a daemon that was started in a terminal, so that the daemon does not outlive the terminal. Under nohup
    it is ignored.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return "ignore"
    if _has_terminal():
        return "stop"
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    return "reload"


def _has_terminal() -> bool:
    """Return whether this process has a controlling terminal, which sends SIGHUP when it closes."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
