"""The clients' packages from PyPI and npm, each installed into its own folder under .harness/."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2] / ".harness"
_SECONDS = 900
_one_at_a_time: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


class NotInstalled(Exception):
    """A client's packages could not be installed; the message has the reason."""


@dataclass(frozen=True)
class Venv:
    """Packages from PyPI in a virtual environment; the first one is the client."""

    name: str
    packages: tuple[str, ...]

    @property
    def python(self) -> Path:
        return self._folder / "bin" / "python"

    @property
    def path(self) -> str:
        return f"{self._folder / 'bin'}:{os.environ['PATH']}"

    @property
    def _folder(self) -> Path:
        return ROOT / self.name

    def install(self) -> None:
        """Install them unless they are installed. Raises `NotInstalled`."""
        pip = (self.python, "-m", "pip", "install", "--quiet", *self.packages)
        _once(self._folder, self.packages, os.environ["PATH"], (sys.executable, "-m", "venv", self._folder), pip)

    def version(self) -> str:
        """The installed version of the client."""
        name = self.packages[0].partition("[")[0].partition(">")[0]
        return f"{name} {_version_in(self.python, name)}"


@dataclass(frozen=True)
class Npm:
    """A package from npm, run with a Node.js from npm: some clients need a newer one than systems have."""

    name: str
    package: str

    @property
    def command(self) -> Path:
        """The program of the package with the client's name."""
        return self.folder / "node_modules" / ".bin" / self.name

    @property
    def path(self) -> str:
        return f"{NODE.folder / 'node_modules' / 'node' / 'bin'}:{os.environ['PATH']}"

    @property
    def folder(self) -> Path:
        return ROOT / self.name

    def install(self) -> None:
        """Install it unless it is installed. Raises `NotInstalled`."""
        if self is not NODE:
            NODE.install()
        words = ("npm", "install", "--prefix", self.folder, "--no-audit", "--no-fund", self.package)
        # npm selects the newest version that its own Node.js can run
        _once(self.folder, (self.package,), self.path, words)

    def version(self) -> str:
        """The installed version."""
        name = self.package[0] + self.package[1:].partition("@")[0]
        about = json.loads((self.folder / "node_modules" / name / "package.json").read_text())
        return f"{name} {about['version']} (npm)"


NODE = Npm("node", "node@22")


def _once(folder: Path, packages: tuple[str, ...], path: str, *commands: tuple[str | Path, ...]) -> None:
    """Run the commands with this PATH unless all have succeeded before for the same packages."""
    with _one_at_a_time[folder.name]:
        mark = folder / "installed"
        if mark.exists() and mark.read_text() == repr(packages):
            return
        folder.mkdir(parents=True, exist_ok=True)
        env = {**os.environ, "PATH": path}
        for command in commands:
            try:
                done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
            except (OSError, subprocess.TimeoutExpired) as exc:
                raise NotInstalled(f"{command[0]}: {exc}") from exc
            if done.returncode:
                raise NotInstalled((done.stderr.strip() or done.stdout.strip()).splitlines()[-1])
        mark.write_text(repr(packages))


@cache
def _version_in(python: Path, name: str) -> str:
    ask = f"import importlib.metadata as m; print(m.version({name!r}))"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
