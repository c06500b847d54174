"""The smallest usable context window of each client, and messages about smaller ones. Pure.

Used by `connect` and `check`.
"""

from __future__ import annotations

from collections.abc import Iterable

_FIRST_REQUEST = {
    "opencode": 30_760,  # 1.18.33
    "codex": 22_160,  # 0.169.0, with the model catalog of the daemon
    "claude": 52_870,  # 2.1.329, with a model name that it does not know
    "aider": 3_149,  # 0.86.2, in an empty repository
    "continue": 7_501,  # 1.5.47
    "cline": 21_798,  # 3.0.65
}
"""Bytes of the first request of a short task in an empty folder: system prompt, tools and the user's message. Recorded
between each client and a model server; the user's own instructions and tools are additional.
"""
_BYTES_PER_TOKEN = 4
"""An approximation for English text and JSON schemas; tokenizers differ."""
_ROOM = 2
"""The first request may fill half of the smallest window; the rest is for responses and tool results."""

MINIMUM_WINDOW = {client: round(size * _ROOM // _BYTES_PER_TOKEN, -3) for client, size in _FIRST_REQUEST.items()}
"""Tokens, rounded to thousands."""


def describe_small_window(client: str, window: int | None) -> str | None:
    """Return a message if a window is too small for a client; None if it is large enough or not known."""
    needed = MINIMUM_WINDOW.get(client)
    if needed is None or window is None or window >= needed:
        return None
    first = _FIRST_REQUEST[client] // _BYTES_PER_TOKEN
    return (
        f"the context window of {window:,} tokens is too small for {client}, which needs about {needed:,} to begin "
        f"(its first request has about {first:,}); raise it with --ctx, a larger budget, or on the model server"
    )


def describe_small_windows(windows: Iterable[int | None]) -> str | None:
    """Return a message with the clients that need more than the largest window; None if there are none or no window
    is known.
    """
    largest = max((window for window in windows if window is not None), default=None)
    if largest is None:
        return None
    short = [f"{client} ({needed:,})" for client, needed in MINIMUM_WINDOW.items() if largest < needed]
    return f"too small to begin with: {', '.join(short)}" if short else None
