"""Bytecode that Python has cached, and that may be of an earlier version of its source.

Python compares the size of a source and the whole seconds of its time. A file that is written again within a second,
with the same size, would be checked as it was before.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_CACHE = "__pycache__"
_OTHER_FOLDERS = frozenset({".git", ".venv", "node_modules"})


def remove_stale_bytecode(folder: Path) -> None:
    """Delete the bytecode of sources that were written in the second of its own time, or later.

    Follows no symlinks: what is below the folder was written by code of a model.
    """
    for root, folders, files, descriptor in os.fwalk(folder, follow_symlinks=False):
        folders[:] = [name for name in folders if name not in _OTHER_FOLDERS]
        if root.endswith(f"/{_CACHE}"):
            for name in files:
                if name.endswith(".pyc"):
                    _remove_if_stale(name, descriptor)


def _remove_if_stale(name: str, cache: int) -> None:
    with suppress(OSError):  # there is no source, or it cannot be deleted
        compiled = os.stat(name, dir_fd=cache, follow_symlinks=False)
        written = os.stat(f"../{name.partition('.')[0]}.py", dir_fd=cache, follow_symlinks=False)
        if int(written.st_mtime) >= int(compiled.st_mtime):
            os.unlink(name, dir_fd=cache)
