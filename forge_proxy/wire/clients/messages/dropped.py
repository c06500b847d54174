"""Collects what a request contains and no model server can do, for `ChatRequest.dropped`."""

from __future__ import annotations

_MAX = 32
"""Maximum number of entries: a history may contain any number of blocks that are dropped."""
_MAX_NAME = 60
"""Maximum characters of a client's field or tool name in an entry."""


class DroppedParts:
    """Entries such as `tools[2]: web_search_20250305 is a server tool`: names, never values."""

    def __init__(self) -> None:
        self._entries: dict[str, None] = {}

    def add(self, at: str, reason: str) -> None:
        """Add an entry, each only once."""
        if len(self._entries) < _MAX:
            self._entries.setdefault(f"{at}: {reason}")

    def entries(self) -> tuple[str, ...]:
        """Return the entries in the order in which they were added."""
        return tuple(self._entries)


def cut_field_name(name: str) -> str:
    """Return a name from the request, truncated and on one line."""
    return " ".join(name[:_MAX_NAME].split())
