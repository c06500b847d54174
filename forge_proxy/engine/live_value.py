"""What may be changed while requests are answered."""

from __future__ import annotations

from typing import Generic, TypeVar

Value = TypeVar("Value")


class LiveValue(Generic[Value]):
    """A value that is replaced as a whole. A request takes it once, at its beginning, and keeps to that."""

    def __init__(self, now: Value) -> None:
        self.now = now
