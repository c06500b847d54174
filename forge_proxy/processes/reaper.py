"""Parent process of a server that the daemon starts; it ensures that no process of the server outlives the daemon.

Runs as a program by its path, with `python -I -S`, and imports only a few standard library modules. Its arguments are
the daemon's pid, the lifeline (`stdin`, or the number of a descriptor) and the server's command line.

When the lifeline closes, which also happens after kill -9 of the daemon, the reaper kills the server and all its
descendants; on Linux this includes processes that have left the process group and the session. When the server ends,
the reaper kills remaining descendants and ends in the same way, by the same signal or with the same exit code.

With `stdin`, the server's stdin is /dev/null and its stdout goes to stderr; the reaper prints one JSON line on its own
stdout: `{"pid": …}` or `{"error": …}`. With a descriptor, stdin and stdout belong to the server, and an error is
printed on stderr.

`end_with_parent` is here, where other programs import it, because this one can import nothing of the package.
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


def end_with_parent(parent: int) -> None:
    """Ask Linux to kill this process when its parent dies, even while it computes and does not read its stdin."""
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before, and Linux sends no signal
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Start the server, and wait until it or the daemon ends."""
    daemon, lifeline, *command = sys.argv[1:]
    owns_stdio = lifeline == "stdin"
    # The daemon signals the whole process group; SIGTERM is meant for the server. Not SIG_IGN, which is inherited.
    signal.signal(signal.SIGTERM, _leave_it_to_the_server)
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    failed, fails = os.pipe()  # close-on-exec: EOF means that the server has started
    if not owns_stdio:
        os.set_inheritable(int(lifeline), False)
    reaper = os.getpid()
    server = os.fork()
    if server == 0:
        _become(command, reaper, fails, has_stdio=not owns_stdio)
    os.close(fails)
    error = os.read(failed, 1000)
    if owns_stdio:
        _report({"error": error.decode()} if error else {"pid": server})
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
    """Close stdin and stdout, so that their other ends see EOF when the server ends."""
    if error:
        os.write(2, error + b"\n")
    os.close(0)
    os.close(1)


def _become(command: list[str], reaper: int, fails: int, *, has_stdio: bool) -> None:
    """Replace the forked child with the server."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent(reaper)  # if the reaper is killed
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
    """Kill everything when the daemon ends or closes the lifeline."""
    while os.getppid() == daemon and os.read(lifeline, 1000):
        pass
    _kill_all()
    if not _LINUX:
        os.killpg(0, signal.SIGKILL)


def _wait_for(server: int) -> int:
    while True:  # the reaper also inherits the server's orphans
        pid, status = os.wait()
        if pid == server:
            return status


def _kill_all() -> None:
    """Kill all descendants repeatedly: a process may start another one just before it is killed."""
    while found := [pid for pid in _descendants() if not _is_dead(pid)]:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_DYING_SECONDS)
    if not _LINUX:  # descendants cannot be listed, and this process belongs to the group
        os.killpg(0, signal.SIGTERM)


def _descendants() -> list[int]:
    if not _LINUX:
        return []
    pids = [os.getpid()]
    for pid in pids:  # grows during the iteration
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                pids += [int(child) for child in task.joinpath("children").read_text().split()]
    return pids[1:]


def _is_dead(pid: int) -> bool:
    """Return whether a process is a zombie or has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _end_like(status: int) -> None:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # only the server should dump core
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _report(status: dict[str, object]) -> None:
    with suppress(OSError):  # the daemon has ended; `_end_with` detects it
        os.write(1, json.dumps(status).encode() + b"\n")


if __name__ == "__main__":
    main()
