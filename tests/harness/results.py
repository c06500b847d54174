"""The results of the cells, stored under .harness/: all of them take hours, those of one client minutes."""

from __future__ import annotations

import datetime
import fcntl
import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, TypeAlias

from tests.harness.packages import ROOT


@dataclass(frozen=True)
class Result:
    """A cell of the table: the results without and through the daemon."""

    client: str
    mistake: str
    direct: str
    guarded: str
    occasion: bool
    """Whether there was an occasion for the mistake."""
    passed: bool
    lacks: str | None
    """The part of the task that was not done through the daemon."""
    version: str
    """The client's package and version."""
    date: str
    commit: str = ""
    """The commit of the code that was run."""
    worse: str | None = None
    """What was worse through the daemon than without it."""
    seconds: tuple[float, float] = (0.0, 0.0)
    """Seconds for both ways together."""

    def __str__(self) -> str:
        return f"{self.direct} → {self.guarded}" if self.occasion or not self.passed else "–"


Results: TypeAlias = Mapping[tuple[str, str], Result]
"""Results by the names of client and mistake."""
_FILE = ROOT / "results.json"


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


@cache
def commit() -> str:
    """Return the commit of the code that runs, with `+` if files differ from it; empty if there is none."""
    git = ("git", "-C", str(ROOT.parent))
    at = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run(
        [*git, "status", "--porcelain", "forge_proxy"], capture_output=True, text=True, check=False
    )
    return at.stdout.strip() + ("+" if changed.stdout else "")


def kept() -> Results:
    """Return the latest result of each cell that was ever run."""
    if not _FILE.exists():
        return {}
    return _by_cell(_read(fields) for fields in json.loads(_FILE.read_text()))


def keep(results: Iterable[Result]) -> Results:
    """Store these in place of earlier ones. Return all stored results."""
    with _FILE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several programs may run at a time
        now = {**kept(), **_by_cell(results)}
        written = _FILE.with_suffix(".new")
        written.write_text(json.dumps([asdict(result) for result in now.values()], indent=1))
        written.replace(_FILE)  # atomically: this program may be killed meanwhile
    return now


def _read(fields: dict[str, Any]) -> Result:
    direct, guarded = fields.pop("seconds", (0.0, 0.0))
    return Result(**fields, seconds=(direct, guarded))


def _by_cell(results: Iterable[Result]) -> Results:
    return {(result.client, result.mistake): result for result in results}
