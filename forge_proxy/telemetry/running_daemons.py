"""Registry of this user's running daemons: one file per daemon in the state folder, locked while the process lives.

`forge-proxy stop` and the "port is already in use" message read it. Process ids are reused, so a file alone proves
nothing. The lock, which ends with the process however it ends, proves that the daemon is alive. The start time proves
that the process id is valid here: a container that shares the folder has a different pid namespace.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from forge_proxy._version import __version__
from forge_proxy.core.jsontypes import JsonObject

_FOLDER = "running"


@dataclass(frozen=True, slots=True)
class RunningDaemon:
    """A daemon whose process is alive."""

    pid: int
    port: int
    version: str
    file: Path


@contextmanager
def register_daemon(state: Path, port: int) -> Generator[None]:
    """Register this process as a daemon on a port. If the folder cannot be written, the daemon runs unregistered."""
    file = state / _FOLDER / f"{os.getpid()}.json"
    try:
        descriptor = _write(file, {**_own_process(), "port": port, "version": __version__})
    except OSError:
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)
        os.close(descriptor)


def list_running_daemons(state: Path) -> Sequence[RunningDaemon]:
    """Return this user's running daemons, and remove the files of killed ones."""
    folder = state / _FOLDER
    try:
        files = sorted(folder.glob("*.json"))
    except OSError:
        return ()
    return [daemon for file in files if (daemon := _read(file)) is not None]


def is_running(daemon: RunningDaemon) -> bool:
    """Return whether the daemon's process is still alive."""
    return _read(daemon.file) is not None


def _own_process() -> JsonObject:
    return {"pid": os.getpid(), "started": _start_time(os.getpid())}


def _start_time(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot, or "" if /proc does not provide it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _write(file: Path, values: JsonObject) -> int:
    """Write the file and return the descriptor that holds its lock. Raises `OSError`."""
    file.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    unlocked = file.with_suffix(".new")  # renamed after locking: readers remove unlocked files
    descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, orjson.dumps(values))
        unlocked.rename(file)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _read(file: Path) -> RunningDaemon | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _parse(file, os.read(descriptor, 4096))
    else:
        with suppress(OSError):
            file.unlink(missing_ok=True)
        return None
    finally:
        os.close(descriptor)


def _parse(file: Path, content: bytes) -> RunningDaemon | None:
    try:
        values = orjson.loads(content)
        daemon = RunningDaemon(int(values["pid"]), int(values["port"]), str(values["version"]), file)
        is_here = _start_time(daemon.pid) == values["started"]
    except (ValueError, KeyError, TypeError):
        return None
    return daemon if is_here else None
