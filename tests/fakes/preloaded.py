"""A program that has imported forge_proxy already and forks a copy of itself for each process that a test starts.

A new interpreter spends most of a second of CPU time on imports. A copy is a process all the same, with its own
environment, working directory, standard streams, signals and exit code. `tests/fakes/forks.py` is the client.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
import warnings
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import cast
from unittest.mock import MagicMock

import forge_proxy
from tests.fakes.recorded_migrations import record_migrations_for_forks

_LARGEST_REQUEST = 1 << 20
_OTHER_IMPORTS = (
    "aiohttp.web", "encodings.idna", "h11", "httpcore", "httpx", "httpx_sse", "mcp.server.mcpserver", "pydantic.v1",
    "rich.markdown", "tests.fakes.model_server", "tests.fakes.task_model", "uvicorn", "uvicorn.lifespan.off",
)  # fmt: skip
"""Modules besides forge_proxy that the daemon, commands and the programs of tests import late."""


def main() -> None:
    """Import everything, then fork for each request until the client closes its end of the socket."""
    with socket.socket(fileno=int(sys.argv[1])) as control:
        _import_everything()
        request, streams = _fork_until_told_what_to_be(control)
    if request:
        _become(request, streams)


class _Running:
    """A forked process. The test gets its id and then its exit code."""

    def __init__(self, pid: int, test: socket.socket) -> None:
        self._pid = pid
        self._test = test
        self._ended = os.pidfd_open(pid)
        self.descriptors = (self._ended, test.fileno())
        test.send(str(pid).encode())

    def kill(self) -> None:
        """Kill it."""
        os.kill(self._pid, signal.SIGKILL)

    def report(self) -> None:
        """Send the exit code. A process whose test has ended is killed: nothing outlives the test."""
        if not select.select([self._ended], [], [], 0)[0]:
            self.kill()
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        with suppress(OSError):  # the test has ended
            self._test.send(str(code).encode())

    def close(self) -> None:
        os.close(self._ended)
        self._test.close()


def _fork_until_told_what_to_be(control: socket.socket) -> tuple[dict[str, object], list[int]]:
    """Fork for each request. Returns in the fork with its request and streams, and at the end without."""
    running: dict[int, _Running] = {}
    while True:
        ready = set(select.select([control.fileno(), *running], [], [])[0])
        for process in {running[descriptor] for descriptor in ready & running.keys()}:
            for descriptor in process.descriptors:
                del running[descriptor]
            process.report()
            process.close()
        if control.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, _LARGEST_REQUEST, 4)
        if not message:
            for process in set(running.values()):
                process.kill()
            return {}, []
        test = socket.socket(fileno=descriptors[0])
        pid = os.fork()
        if pid == 0:
            for process in set(running.values()):
                process.close()
            test.close()
            return json.loads(message), descriptors[1:]
        for stream in descriptors[1:]:
            os.close(stream)
        started = _Running(pid, test)
        running |= dict.fromkeys(started.descriptors, started)


def _import_everything() -> None:
    for module in pkgutil.walk_packages(forge_proxy.__path__, "forge_proxy."):
        if not module.name.endswith(("__main__", "_child")) and ".migrations" not in module.name:
            import_module(module.name)
    for name in _OTHER_IMPORTS:
        import_module(name)
    record_migrations_for_forks()
    _build_what_copies_build()
    gc.freeze()  # imported modules are never collected: a copy need not scan them


def _build_what_copies_build() -> None:
    """Build the tree of Typer commands, which copies keep, and the routes, whose types are then in many caches.

    Both took half of the CPU time of the start of a daemon.
    """
    import typer.main
    from fastapi import FastAPI

    from forge_proxy.api.admin.routes import add_admin_routes
    from forge_proxy.cli.app import app

    typer.main.get_command = cache(typer.main.get_command)
    typer.main.get_command(app)
    add_admin_routes(FastAPI(), MagicMock(), keepalive_seconds=1)


def _become(request: dict[str, object], streams: list[int]) -> None:
    """Turn this process into what a new interpreter would be, and run the module."""
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
    # runpy warns if a module was imported before, and here all were.
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
    try:
        runpy.run_module(str(request["module"]), run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        _exit(end.code or 0)
    _exit(0)


def _exit(code: int) -> None:
    """End as an interpreter does, except that imported objects are not freed one by one.

    Freeing them took half of the CPU time of a short command: each freed object costs a copy of the page that it is on.
    """
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]  waits for threads, as an interpreter does
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    for stream in (sys.stdout, sys.stderr):
        if stream and not stream.closed:
            stream.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
