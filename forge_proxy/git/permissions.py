"""Folders that a check has made unreadable."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def make_removable(folder: Path) -> None:
    """Let the owner list and change all folders below `folder`, without following symlinks."""
    pending = [folder]
    while pending:
        current = pending.pop()
        if stat.S_IMODE(current.lstat().st_mode) & stat.S_IRWXU != stat.S_IRWXU:
            current.chmod(stat.S_IRWXU)
        with os.scandir(current) as entries:
            pending += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
