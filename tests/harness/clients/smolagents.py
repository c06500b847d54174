"""smolagents' agent for tool calls, which requires a call each time and ends with one."""

from __future__ import annotations

from tests.harness.client import program
from tests.harness.packages import Venv
from tests.harness.tasks import ReadThenWriteThenFinalAnswer

_PACKAGE = Venv("smolagents", ("smolagents[openai]",))

ROWS = program(_PACKAGE, "smolagents_agent.py", "run", task=ReadThenWriteThenFinalAnswer)
