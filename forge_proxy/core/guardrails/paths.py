"""Paths of values inside arguments, for messages to the model and for logs."""

from __future__ import annotations

from collections.abc import Iterable

_MAX_LENGTH = 120
"""Maximum characters of a path: its keys come from the model."""


def path_of(parts: Iterable[str | int]) -> str:
    """Return the path, such as `filters[0].name`; empty for the arguments as a whole."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part[:_MAX_LENGTH]}" if path else part[:_MAX_LENGTH]
        if len(path) > _MAX_LENGTH:
            path = f"{path[:_MAX_LENGTH]}…"
            break
    if path.isprintable():
        return path
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in path)
