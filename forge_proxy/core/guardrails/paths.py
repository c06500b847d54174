"""Writes where a value stands inside arguments, for the model and for logs."""

from __future__ import annotations

from collections.abc import Iterable

_MAX_SHOWN = 120
"""Characters of a path: its keys are the model's own."""


def path_of(parts: Iterable[str | int]) -> str:
    """The place as `filters[0].name`; empty for the arguments as a whole."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part[:_MAX_SHOWN]}" if path else part[:_MAX_SHOWN]
        if len(path) > _MAX_SHOWN:
            path = f"{path[:_MAX_SHOWN]}…"
            break
    if path.isprintable():
        return path
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in path)
