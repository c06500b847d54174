"""Who executes each tool of a run, as the workflow says: `execute.by`."""

from __future__ import annotations

from collections.abc import Mapping

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.workflows.runs.ports import ToolDeclaration, ToolRegistry
from forge_proxy.workflows.tools import Executor, told

OWN = ("caller", "arguments")
"""Ways that begin and end here."""


def parameters_of(tool: ToolDeclaration, at: str) -> JsonObject:
    """The parameters of a tool that nobody but its declaration knows. Raises `InvalidRequest`."""
    if tool.parameters is None:
        why = "required: a JSON Schema of type object; {} is any. Only tools of MCP servers may leave it to the server"
        raise InvalidRequest(f"{at}.parameters", why)
    return tool.parameters


class LocalTools:
    """`ToolRegistry` of the ways that need nothing from outside; those of `others` are handed on to them."""

    def __init__(self, others: ToolRegistry | None = None) -> None:
        self._others = others

    async def declare(self, tool: ToolDeclaration, at: str) -> ToolSpec:
        """See `ports.Toolbox`."""
        by = tool.execute.get("by")
        if by not in OWN:
            if self._others is None:
                raise InvalidRequest(f"{at}.execute.by", f"expected one of {', '.join(OWN)}")
            return await self._others.declare(tool, at)
        if extra := [name for name in tool.execute if name != "by"]:
            raise InvalidRequest(f"{at}.execute.{extra[0]}", f"no such field where a tool is executed by {by}")
        return ToolSpec(tool.name, parameters_of(tool, at), tool.description or "")

    def executor(self, executes: Mapping[str, JsonObject], run_id: str) -> Executor:
        """See `ports.Toolbox`."""
        elsewhere = {name: execute for name, execute in executes.items() if execute["by"] not in OWN}
        others = self._others.executor(elsewhere, run_id) if self._others and elsewhere else None
        return _Dispatch({name: str(execute["by"]) for name, execute in executes.items()}, others)


class _Dispatch:
    """`Executor` of one run."""

    def __init__(self, by: Mapping[str, str], others: Executor | None) -> None:
        self._by = by
        self._others = others

    async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
        """See `Executor`."""
        match self._by[call.tool]:
            case "caller":
                return None
            case "arguments":
                return told(call.args() or {})
            case by if self._others is None:
                raise AssertionError(f"nothing executes tools by {by}")
            case _:
                return await self._others.execute(call, key)
