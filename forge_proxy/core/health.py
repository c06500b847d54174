"""The health of a model server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Health:
    """The current health of a backend; `detail` is the reason as text."""

    status: Literal["ok", "loading", "down"]
    detail: str = ""
