"""Frozen values of which there are many: one for each token, or several for each request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import dataclass_transform

if TYPE_CHECKING:
    from typing import Any

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def fast_dataclass(cls: type[T]) -> type[T]:
    """A dataclass with slots that is frozen for the type checker only.

    `dataclass(frozen=True)` sets each field by way of `object.__setattr__`: that takes five times as long to make one.
    """
    make: Any = dataclass(slots=True)
    return make(cls)
