"""Runs the git program: limited in time and output, retried while another git holds a lock."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forge_proxy.core.tasks.errors import GitFailed
from forge_proxy.git.environment import build_environment
from forge_proxy.processes.program import ProgramLimits, ProgramOutput, run_program

OLDEST = (2, 38)
"""The first version with `git merge-tree --write-tree`."""
_LOCKED = re.compile(r"(?:Unable to create|could not lock config file) '?([^'\n]+?)(?:\.lock)?'?: File exists")
_MAX_BYTES = 64 * 1024 * 1024
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class GitPlace:
    """The repository and the folder that a command works on."""

    git_dir: Path
    work_tree: Path | None = None
    filters: tuple[str, ...] = ()
    """Keys of the repository's `filter.*` settings, which are switched off."""
    index: Path | None = None
    """An index file in place of that of the work tree."""
    is_of_user: bool = False
    """Whether the work tree is a checkout of the user, which may be sparse."""


class GitProgram:
    """The git program. `author` is the name and email address of all commits.

    While another git holds a lock, a command is retried for `lock_seconds`.
    """

    def __init__(self, author: tuple[str, str], *, program: str = "git", lock_seconds: float = 10.0) -> None:
        self._author = author
        self._program = program
        self._lock_seconds = lock_seconds
        self._command: Sequence[str] = ()
        self._starting = asyncio.Lock()

    async def run(
        self,
        *arguments: str,
        place: GitPlace | None = None,
        cwd: Path | None = None,
        stdin: bytes = b"",
        accept: Collection[int] = (0,),
        seconds: float = 120.0,
        max_bytes: int = _MAX_BYTES,
    ) -> ProgramOutput:
        """Run a command and return its output. Without `place`, git searches for a repository at `cwd`.

        Raises `GitFailed` if git is missing or too old, if the exit code is not in `accept`, and if it takes too long.
        """
        command = [*await self._find(), *arguments]
        env = {
            **build_environment(
                self._author,
                git_dir=place and place.git_dir,
                work_tree=place and place.work_tree,
                filters=place.filters if place else (),
                is_full=not (place and place.is_of_user),
            ),
            **({"GIT_INDEX_FILE": str(place.index)} if place and place.index else {}),
        }
        where = cwd or (place and (place.work_tree or place.git_dir)) or Path("/")
        limits = ProgramLimits(seconds, max_bytes)
        waited, pause = 0.0, _FIRST_PAUSE
        while True:
            ended = await _run(command, limits, env, where, stdin)
            lock = _LOCKED.search(ended.err.decode("utf-8", "replace")) if ended.code else None
            if lock is None or waited >= self._lock_seconds:
                break
            await asyncio.sleep(pause)
            waited, pause = waited + pause, min(2 * pause, _LONGEST_PAUSE)
        _check(ended, arguments[0], where, accept, lock and lock[1], self._lock_seconds)
        return ended

    async def _find(self) -> Sequence[str]:
        """Return the words that start git. Raises `GitFailed` if there is no git, or one that is too old."""
        async with self._starting:
            if not self._command:
                self._command = await self._probe()
        return self._command

    async def _probe(self) -> Sequence[str]:
        env = build_environment(self._author, git_dir=None, work_tree=None, filters=())
        limits = ProgramLimits(30.0, 10_000)
        if (program := shutil.which(self._program)) is None:
            raise GitFailed(f"the program {self._program} was not found; install git {OLDEST[0]}.{OLDEST[1]} or newer")
        # git ends with the daemon, so that a killed daemon leaves no git that still writes.
        setpriv = shutil.which("setpriv")
        bound = [[setpriv, "--pdeathsig", "TERM", program]] if setpriv else []
        for command in (*bound, [program]):
            ended = await _run([*command, "version"], limits, env, Path("/"), b"")
            if found := re.search(r"(\d+)\.(\d+)", ended.out.decode("utf-8", "replace")):
                if (int(found[1]), int(found[2])) >= OLDEST:
                    return command
                raise GitFailed(f"git {found[0]} ({program}) is too old; install git {OLDEST[0]}.{OLDEST[1]} or newer")
        raise GitFailed(f"{program} does not report its version")


async def _run(
    command: Sequence[str], limits: ProgramLimits, env: Mapping[str, str], cwd: Path, stdin: bytes
) -> ProgramOutput:
    try:
        return await run_program(command, limits, env=env, cwd=cwd, stdin=stdin)
    except OSError as error:
        raise GitFailed(f"git cannot be run in {cwd}: {error.strerror or error}") from error


def _check(
    ended: ProgramOutput, name: str, where: Path, accept: Collection[int], lock: str | None, waited: float
) -> None:
    if ended.stopped:
        raise GitFailed(f"git {name} in {where} was stopped: {ended.stopped}")
    if lock is not None:
        raise GitFailed(
            f"git {name} in {where}: another git has held the lock {lock}.lock for {waited:g} s;"
            " if none is running, delete the file"
        )
    if ended.code not in accept:
        text = (ended.err or ended.out).decode("utf-8", "replace")
        lines = [line.removeprefix("fatal: ").removeprefix("error: ") for line in text.splitlines() if line.strip()]
        raise GitFailed(f"git {name} in {where} failed: {'; '.join(lines[-3:])[:500] or f'exit code {ended.code}'}")


def in_index(place: GitPlace, index: Path) -> GitPlace:
    """Return the place with another index file."""
    return replace(place, index=index)
