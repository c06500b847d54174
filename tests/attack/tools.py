"""To be written."""

from __future__ import annotations

from tests.attack.attack import Attack

ATTACKS: list[Attack] = []
