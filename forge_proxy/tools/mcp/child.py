"""Stands between the daemon and an MCP server that it started, so that the server does not outlive it.

Run as a program by its path, with `python -I -S`: it imports nothing but a little of the standard library. Its
arguments are the daemon's pid and the server's command line. The server has its stdin, stdout and stderr.

A server ends by itself when its stdin does, or should. This sees to those that do not, when the daemon was killed: on
Linux it hears of that, and kills its process group, which is the server and what it has started. When the server ends
first, what it has left behind goes the same way.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_LINUX = sys.platform == "linux"


def main() -> None:
    """Start the server, wait for its end or the daemon's."""
    daemon, *command = sys.argv[1:]
    signal.signal(signal.SIGUSR1, _end_all)
    # What the daemon sends is meant for the server, and goes to the whole group. Not ignored: that is inherited.
    signal.signal(signal.SIGTERM, _leave_it_to_the_server)
    _tell_of_the_parents_death(signal.SIGUSR1)
    if os.getppid() != int(daemon):  # it died before it could be told of
        return
    server = os.fork()
    if server == 0:
        _become(command)
    os.close(0)  # the server's alone: whoever waits for the end of its stdin or stdout waits for it
    os.close(1)
    os.waitpid(server, 0)
    _end_all()


def _become(command: list[str]) -> None:
    """In the child: the server itself."""
    _tell_of_the_parents_death(signal.SIGKILL)  # should somebody kill this process alone
    try:
        os.execvp(command[0], command)  # noqa: S606  # no shell is wanted
    except OSError as exc:
        os.write(2, f"{command[0]} cannot be started: {exc.strerror}\n".encode())
    os._exit(127)


def _tell_of_the_parents_death(number: int) -> None:
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def _end_all(*_: object) -> None:
    os.killpg(0, signal.SIGKILL)


def _leave_it_to_the_server(*_: object) -> None:
    pass


if __name__ == "__main__":
    main()
