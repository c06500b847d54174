"""Paths in the output of a check."""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import normpath


def relative_path(text: str, roots: Sequence[str]) -> str | None:
    """Return a path relative to the repository; None if it is outside. `roots` are the absolute paths of its folder."""
    path = text
    for root in roots:
        if text.startswith(f"{root}/"):
            path = text[len(root) + 1 :]
            break
    path = normpath(path)
    return None if path.startswith(("/", "../")) or path in ("..", ".") else path
