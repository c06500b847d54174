"""Limits on the output of MCP servers. Pure."""

from __future__ import annotations

import re

_PERIOD_SECONDS = 60.0
_MIN_CHECKED_BYTES = 256 * 1024
_MAX_VALUES = 100_000
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_STRUCTURE = (b",", b"[", b"{")


class TooMuchOutput(Exception):
    """A server exceeded an output limit. The message names the limit."""


class NotificationLimit:
    """Limits unsolicited messages of a server, such as notifications, to `limit` bytes per minute."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0.0
        self._at = 0.0

    def spend(self, size: int, now: float) -> None:
        """Count bytes. `now` is in seconds. Raises `TooMuchOutput`."""
        self._used = max(0.0, self._used - (now - self._at) * self._limit / _PERIOD_SECONDS) + size
        self._at = now
        if self._used > self._limit:
            raise TooMuchOutput(f"it sent more than {self._limit // 1024} KB of unrequested data within a minute")


def check_values(text: bytes) -> None:
    """Raise `TooMuchOutput` for JSON with so many values that parsing it would block the event loop.

    A megabyte of text in one string parses in 1 ms, a megabyte of empty lists in 100 ms.
    """
    if len(text) < _MIN_CHECKED_BYTES:
        return
    count = at = 0
    for string in _STRING.finditer(text):
        count += sum(text.count(sign, at, string.start()) for sign in _STRUCTURE)
        if count > _MAX_VALUES:
            break
        at = string.end()
    else:
        count += sum(text.count(sign, at) for sign in _STRUCTURE)
    if count > _MAX_VALUES:
        raise TooMuchOutput(f"it sent a message of more than {_MAX_VALUES:,} values")
