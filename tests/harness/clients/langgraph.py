"""langgraph's agent with langchain-openai's model, whole and streamed."""

from __future__ import annotations

from tests.harness.client import program
from tests.harness.packages import Venv

_PACKAGE = Venv("langgraph", ("langgraph", "langchain-openai", "langchain"))

ROWS = program(_PACKAGE, "langgraph_agent.py", "invoke", "stream")
