"""openai-agents: its runner, whole and streamed."""

from __future__ import annotations

from tests.harness.client import program
from tests.harness.packages import Venv

ROWS = program(Venv("openai-agents", ("openai-agents",)), "openai_agents.py", "run", "run_streamed")
