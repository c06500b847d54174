"""Decides what SIGHUP does to this process, depending on how it was started."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
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


@contextmanager
def signal_closed_terminal() -> Generator[None]:
    """Send SIGHUP to this process once its terminal closes, if no shell with job control is there to send it.

    A closing terminal signals only the process that leads its session. A shell passes the signal on to its jobs, but
    `make` waits for its children: `xterm -e make run` would leave both running. Without epoll (macOS), nothing is
    watched.
    """
    if sys.platform != "linux" or os.getpgid(os.getsid(0)) != os.getpgrp():
        yield
        return
    loop = asyncio.get_running_loop()
    with Path("/dev/tty").open("rb", buffering=0) as terminal, select.epoll() as closed:
        closed.register(terminal, 0)  # no event but the hangup, which is always reported: what is typed stays unread

        def report() -> None:
            loop.remove_reader(closed.fileno())
            signal.raise_signal(signal.SIGHUP)

        loop.add_reader(closed.fileno(), report)
        try:
            yield
        finally:
            loop.remove_reader(closed.fileno())
