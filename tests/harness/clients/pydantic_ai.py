"""pydantic-ai: its agent, whole and streamed."""

from __future__ import annotations

from tests.harness.client import program
from tests.harness.packages import Venv

ROWS = program(Venv("pydantic-ai", ("pydantic-ai-slim[openai]",)), "pydantic_ai_agent.py", "run", "run_stream")
