"""A setting that can change at runtime."""

from __future__ import annotations

from typing import Generic, TypeVar

Value = TypeVar("Value")


class LiveValue(Generic[Value]):
    """A value that is replaced as a whole. A request reads it once at its start and uses that value to its end."""

    def __init__(self, now: Value) -> None:
        self.now = now
