"""The virtual environment of a repository: its programs, and the interpreter that they need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

SHARED = (".venv", "venv", "node_modules")
"""Folders of the user's checkout that git ignores and that checks need. They are read-only in the sandbox."""
_PROGRAMS = (".venv/bin", "venv/bin", "node_modules/.bin")


def find_shared(repository: Path, worktree: Path) -> Sequence[str]:
    """Return the names of the shared folders of a repository that a worktree does not have itself.

    A symlink in the worktree cannot be a mount point.
    """
    return [name for name in SHARED if (repository / name).is_dir() and not _is_taken(worktree / name)]


def program_folders(top: Path, names: Sequence[str]) -> Sequence[Path]:
    """Return the folders of programs in the shared folders, as seen below `top`."""
    return [top / folder for folder in _PROGRAMS if folder.split("/")[0] in names]


def find_interpreter(environment: Path) -> Path | None:
    """Return the folder of the Python installation that a virtual environment uses; None if there is none.

    It is one that looks like an installation, and never a folder above the home folder.
    """
    python = environment / "bin" / "python"
    if not python.exists():
        return None
    prefix = python.resolve().parent.parent
    looks_right = any((prefix / "lib").glob("python3*"))
    return prefix if looks_right and not Path.home().resolve().is_relative_to(prefix) else None


def _is_taken(place: Path) -> bool:
    return place.is_symlink() or (place.exists() and (not place.is_dir() or any(place.iterdir())))
