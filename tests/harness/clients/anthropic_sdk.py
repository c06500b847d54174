"""The anthropic SDK for Python: its plain loop with token counts, its streaming helper, and its tool runner."""

from __future__ import annotations

from tests.harness.client import program
from tests.harness.packages import Venv

_MODES = ("create", "stream", "tool_runner")

ROWS = program(Venv("anthropic", ("anthropic",)), "anthropic_sdk.py", *_MODES, is_served_directly=False)
