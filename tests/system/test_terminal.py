"""A daemon in a terminal ends with it; one without a terminal reads its settings again; under nohup nothing happens."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import IO

import pytest

from tests.fakes.processes import ROOT, Process, environment

_OWN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(int(sys.argv[1]), termios.TIOCSCTTY, 0)
os.execv(sys.argv[2], sys.argv[2:])
"""
_WAITS_LIKE_MAKE = """
import signal, subprocess, sys
signal.signal(signal.SIGHUP, lambda *_: None)  # not SIG_IGN, which the child would inherit
sys.exit(subprocess.call(sys.argv[1:]))
"""
_FORGE_PROXY = (sys.executable, "-m", "forge_proxy")


@pytest.fixture(autouse=True)
def without_nohup() -> Generator[None]:
    """The daemons inherit SIGHUP's default action, also if the tests themselves run under nohup."""
    previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, previous)


@contextmanager
def in_terminal(*words: str) -> Generator[tuple[subprocess.Popen[str], int]]:
    """A program that leads the session of its terminal, with its log in a pipe, and the terminal's other end."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _OWN_TERMINAL, str(its), *words],
        cwd=ROOT, env=environment(), pass_fds=[its], stdin=its, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    os.close(its)
    try:
        yield process, ours
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(event: str, lines: IO[str] | None) -> None:
    assert lines is not None
    for line in lines:
        if json.loads(line)["event"] == event:
            return
    raise AssertionError(f"never: {event}")


def test_closing_the_terminal_stops_the_daemon(server: Process) -> None:
    with in_terminal(*_FORGE_PROXY, "serve", "--port", "0", "--backend-url", server.url) as (process, terminal):
        wait_for("listening", process.stderr)

        os.close(terminal)

        wait_for("stopped", process.stderr)
        assert process.wait(30) == 0


def test_closing_the_terminal_stops_a_daemon_whose_parent_leads_the_session_and_waits(server: Process) -> None:
    """`xterm -e make run`, `ssh -t host make run`: the terminal signals make alone, which waits for the daemon."""
    words = (sys.executable, "-c", _WAITS_LIKE_MAKE, *_FORGE_PROXY)
    with in_terminal(*words, "serve", "--port", "0", "--backend-url", server.url) as (process, terminal):
        wait_for("listening", process.stderr)

        os.close(terminal)

        wait_for("stopped", process.stderr)
        assert process.wait(30) == 0


def test_under_nohup_closing_the_terminal_changes_nothing(server: Process) -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which the process inherits, as from nohup
    try:
        with in_terminal(*_FORGE_PROXY, "serve", "--port", "0", "--backend-url", server.url) as (process, terminal):
            signal.signal(signal.SIGHUP, previous)
            wait_for("listening", process.stderr)

            os.close(terminal)
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)

            assert process.stderr is not None
            rest = process.stderr.read()
            assert process.wait(30) == 0
    finally:
        signal.signal(signal.SIGHUP, previous)
    assert "reloaded" not in rest
    assert "stopped" in rest
