"""Dataclasses for values that are created very often: one per token, or several per request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import dataclass_transform

if TYPE_CHECKING:
    from typing import Any

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def fast_dataclass(cls: type[T]) -> type[T]:
    """Return a dataclass with slots that is frozen for the type checker only.

    `dataclass(frozen=True)` sets each field through `object.__setattr__`, which makes construction five times as slow.
    """
    make: Any = dataclass(slots=True)
    return make(cls)
