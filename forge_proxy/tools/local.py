"""The executors without I/O: the client executes the tool itself, or the arguments are the result."""

from __future__ import annotations

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.workflows.tool_registry import ToolDeclaration, spec_with_parameters
from forge_proxy.workflows.tools import to_tool_outcome


class _LocalExecutor:
    """Base of the executors whose `execute` object has no field besides `by`."""

    is_external = False

    def parse(self, execute: JsonObject, at: str) -> None:
        """See `ToolExecutor`."""
        if unknown := [name for name in execute if name != "by"]:
            raise InvalidRequest(f"{at}.{unknown[0]}", f"unknown field for execute.by {execute['by']}")

    async def declare(self, tool: ToolDeclaration, definition: None, at: str) -> ToolSpec:
        """See `ToolExecutor`."""
        return spec_with_parameters(tool, at)


class ClientExecutor(_LocalExecutor):
    """`ToolExecutor` of tools that the client executes: the run pauses until the client posts the output."""

    kind = "client"

    async def execute(self, definition: None, call: ToolCall, key: str, run_id: str) -> ToolOutcome | None:
        """See `ToolExecutor`."""
        return None


class EchoExecutor(_LocalExecutor):
    """`ToolExecutor` of tools whose arguments are the result, such as a terminal tool that takes the final answer."""

    kind = "arguments"

    async def execute(self, definition: None, call: ToolCall, key: str, run_id: str) -> ToolOutcome | None:
        """See `ToolExecutor`."""
        return to_tool_outcome(call.args() or {})
