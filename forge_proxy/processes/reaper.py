"""Stands between the daemon and a server that it started, so that nothing of the server outlives the daemon.

Run as a program by its path, with `python -I -S`: it imports nothing but a little of the standard library. Its
arguments are the daemon's pid, the lifeline (`stdin`, or the number of a descriptor) and the server's command line.

When the lifeline ends, which kill -9 of the daemon brings about as well, it kills the server and all that the server
has started, on Linux also processes that have left the group and the session. When the server ends it kills what is
left and ends the same way, by the same signal or with the same code.

With `stdin` the server has none, and its stdout is its stderr; the launcher prints one JSON line on its own stdout:
`{"pid": …}`, or `{"error": …}`. With a descriptor, stdin and stdout are the server's, and an error is a line on stderr.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_DYING_SECONDS = 0.005
_LINUX = sys.platform == "linux"


def main() -> None:
    """Start the server, wait for its end or the daemon's."""
    daemon, lifeline, *command = sys.argv[1:]
    owns_stdio = lifeline == "stdin"
    # What the daemon sends is meant for the server, and goes to the whole group. Not ignored: that is inherited.
    signal.signal(signal.SIGTERM, _leave_it_to_the_server)
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    failed, fails = os.pipe()  # closed by a server that has been started
    if not owns_stdio:
        os.set_inheritable(int(lifeline), False)
    server = os.fork()
    if server == 0:
        _become(command, fails, has_stdio=not owns_stdio)
    os.close(fails)
    error = os.read(failed, 1000)
    if owns_stdio:
        _say({"error": error.decode()} if error else {"pid": server})
    else:
        _leave_stdio_to_the_server(error)
    watched = 0 if owns_stdio else int(lifeline)
    threading.Thread(target=_end_with, args=(int(daemon), watched), daemon=True).start()
    status = _wait_for(server)
    _kill_all()
    _end_like(status)


def _leave_it_to_the_server(_: int, __: object) -> None:
    pass


def _leave_stdio_to_the_server(error: bytes) -> None:
    """Whoever waits for the end of its stdin or stdout waits for the server alone."""
    if error:
        os.write(2, error + b"\n")
    os.close(0)
    os.close(1)


def _become(command: list[str], fails: int, *, has_stdio: bool) -> None:
    """In the child: the server itself."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if _LINUX:  # should somebody kill the launcher, the server dies too
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if not has_stdio:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
    try:
        os.execvp(command[0], command)  # noqa: S606  # no shell is wanted
    except OSError as exc:
        os.write(fails, f"{command[0]} cannot be started: {exc.strerror}".encode())
    os._exit(127)


def _end_with(daemon: int, lifeline: int) -> None:
    """Kill everything when the daemon is gone, or closes the pipe to have it so."""
    while os.getppid() == daemon and os.read(lifeline, 1000):
        pass
    _kill_all()
    if not _LINUX:
        os.killpg(0, signal.SIGKILL)


def _wait_for(server: int) -> int:
    while True:  # orphans of the server's are ours as well
        pid, status = os.wait()
        if pid == server:
            return status


def _kill_all() -> None:
    """Kill the descendants, again and again: one that is killed may just have started another."""
    while found := [pid for pid in _descendants() if not _is_dead(pid)]:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_DYING_SECONDS)
    if not _LINUX:  # there is no list of them, and this process is in the group itself
        os.killpg(0, signal.SIGTERM)


def _descendants() -> list[int]:
    if not _LINUX:
        return []
    found = [os.getpid()]
    for pid in found:  # grows meanwhile
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += [int(child) for child in task.joinpath("children").read_text().split()]
    return found[1:]


def _is_dead(pid: int) -> bool:
    """Whether it only waits for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _end_like(status: int) -> None:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the server has dumped its core already, if it does
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _say(said: dict[str, object]) -> None:
    with suppress(OSError):  # a daemon that is gone already; `_end_with` finds out
        os.write(1, json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    main()
