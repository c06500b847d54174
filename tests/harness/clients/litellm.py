"""The litellm SDK in a plain loop, whole and streamed."""

from __future__ import annotations

from tests.harness.client import program
from tests.harness.packages import Venv

# `completion` with tools imports mcp and does not depend on it.
ROWS = program(Venv("litellm", ("litellm", "mcp")), "litellm_loop.py", "whole", "stream")
