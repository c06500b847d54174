"""Which repositories tasks may use: those of the settings, and those that `forge-proxy tasks allow` has recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from forge_proxy.core.tasks.errors import RepositoryUnusable

_READER = TypeAdapter(list[Path])


class AllowedRepositories:
    """Paths of repositories. `file` holds the recorded ones; it is read each time, because a command changes it."""

    def __init__(self, configured: Sequence[Path], file: Path) -> None:
        self._configured = tuple(path.expanduser().resolve() for path in configured)
        self._file = file

    def allow(self, path: Path) -> Path:
        """Record a repository and return its path without symlinks. Raises `RepositoryUnusable` and `OSError`."""
        top = path.expanduser().resolve()
        if not top.is_dir():
            raise RepositoryUnusable(f"{top}: there is no such folder")
        if not (top / ".git").exists():  # a file in further worktrees
            raise RepositoryUnusable(f"{top}: not the top folder of a git repository with a checkout; name that folder")
        recorded = self._read()
        if top not in recorded:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            written = self._file.with_suffix(".new")
            written.write_bytes(_READER.dump_json([*recorded, top], indent=2))
            written.replace(self._file)
        return top

    def is_allowed(self, path: Path) -> bool:
        """Whether tasks may use this repository."""
        return path in self._configured or path in self._read()

    def _read(self) -> Sequence[Path]:
        try:
            return _READER.validate_json(self._file.read_bytes())
        except (FileNotFoundError, ValidationError):
            return ()
