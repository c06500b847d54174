"""mini-swe-agent, whose only tool is a shell."""

from __future__ import annotations

from tests.harness.client import program
from tests.harness.packages import Venv
from tests.harness.tasks import ReadThenWriteByShell

# Its litellm imports mcp for calls and does not depend on it.
_PACKAGE = Venv("mini-swe-agent", ("mini-swe-agent", "mcp"))

ROWS = program(_PACKAGE, "mini_swe_agent.py", "run", task=ReadThenWriteByShell)
