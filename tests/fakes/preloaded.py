"""A program that has imported forge_proxy already and forks a copy of itself for each process that a test starts.

A new interpreter spends most of a second of CPU time on imports. A copy is a process all the same, with its own
environment, working directory, standard streams, signals and exit code. `tests/fakes/forks.py` is the client.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from typing import cast

import forge_proxy

_LARGEST_REQUEST = 1 << 20
_OTHER_IMPORTS = ("aiohttp.web", "mcp.server.mcpserver", "uvicorn", "tests.fakes.model_server")


def main() -> None:
    """Import everything, then fork for each request until the client closes its end of the socket."""
    with socket.socket(fileno=int(sys.argv[1])) as control:
        _import_everything()
        while True:
            request, descriptors, _, _ = socket.recv_fds(control, _LARGEST_REQUEST, 4)
            _reap()
            if not request:
                return
            if os.fork() == 0:
                control.close()
                _watch(json.loads(request), descriptors)
                return  # only the process that the test asked for gets here
            for descriptor in descriptors:
                os.close(descriptor)


def _import_everything() -> None:
    for module in pkgutil.walk_packages(forge_proxy.__path__, "forge_proxy."):
        if not module.name.endswith(("__main__", "_child")) and ".migrations" not in module.name:
            import_module(module.name)
    for name in _OTHER_IMPORTS:
        import_module(name)
    gc.freeze()  # what was imported is never collected: a copy need not look at it


def _reap() -> None:
    """Let the watchers go that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watch(request: dict[str, object], descriptors: list[int]) -> None:
    """Start the process; report its id, and its exit code when it has ended."""
    pid = os.fork()
    if pid == 0:
        os.close(descriptors[0])
        _become(request, descriptors[1:])
        return
    for descriptor in descriptors[1:]:
        os.close(descriptor)
    with socket.socket(fileno=descriptors[0]) as replies:
        replies.send(str(pid).encode())
        ended = os.pidfd_open(pid)
        if ended not in select.select([ended, replies], [], [])[0]:  # the test has gone: nothing outlives it
            os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        try:
            replies.send(str(code).encode())
        except OSError:  # the test has gone
            os._exit(1)
    os._exit(0)


def _become(request: dict[str, object], streams: list[int]) -> None:
    """Make this process what a new interpreter would be, and run the module."""
    if request["new_session"]:
        os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(cast("dict[str, str]", request["env"]))
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  kept open
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True, line_buffering=True)
    sys.argv = ["forge-proxy", *cast("list[str]", request["words"])]
    # runpy warns of a module that was imported before: here all are.
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
    runpy.run_module(str(request["module"]), run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
