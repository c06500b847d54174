"""Whether a model server can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of a backend now; `detail` is the reason in words."""

    status: Literal["ok", "loading", "down"]
    detail: str = ""
