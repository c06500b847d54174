"""A PostgreSQL server of a test, in its own folder: Debian's package `postgresql`."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

_USER = "postgres"


def find_programs() -> Path | None:
    """Return the folder of initdb and pg_ctl: Debian keeps them off the PATH."""
    found = shutil.which("initdb")
    places = [*([Path(found).resolve().parent] if found else []), *Path("/usr/lib/postgresql").glob("*/bin")]
    return next((place for place in places if (place / "pg_ctl").exists()), None)


def need_programs() -> Path:
    """Return that folder. Without it, the test is skipped with a reason; in CI it fails."""
    programs = find_programs()
    if programs is None:
        why = "PostgreSQL is not installed: apt-get install postgresql"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)
    return programs


class Postgres:
    """One server. `url` is that of its database, for the store."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._data = folder / "data"
        self._sockets = folder / "sockets"
        self._sockets.mkdir()
        self._databases = 0
        self._uid = pwd.getpwnam(_USER).pw_uid if os.geteuid() == 0 else None
        if self._uid is not None:  # it refuses to run as root
            os.chown(folder, self._uid, -1)
            os.chown(self._sockets, self._uid, -1)
        self._run("initdb", "-D", str(self._data), "-U", _USER, "-A", "trust", "--no-sync", "-E", "UTF8")
        self.url = f"postgresql+asyncpg://{_USER}@/postgres?host={self._sockets}"

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        options = f"-k {self._sockets} -c listen_addresses='' -c fsync=off"
        self._run("pg_ctl", "-D", str(self._data), "-w", "-o", options, "-l", f"{self._data}/log", "start")

    def stop(self) -> None:
        """Stop it, even if clients are connected."""
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", "immediate", "stop")

    def create_database(self) -> str:
        """Create an empty database, and return its URL for the store."""
        self._databases += 1
        name = f"test_{self._databases}"
        self._run("createdb", "-h", str(self._sockets), "-U", _USER, name)
        return self.url.replace("/postgres?", f"/{name}?")

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [self._programs / program, *words],
            user=self._uid, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()


@contextmanager
def postgres() -> Generator[Postgres]:
    """Start a server."""
    programs = need_programs()
    with tempfile.TemporaryDirectory(prefix="forge-pg-", ignore_cleanup_errors=True) as folder:
        server = Postgres(programs, Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()
