"""Selects the executor of each tool of a run by the workflow's `execute.by`."""

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
"""Executors implemented in this module."""


def parameters_of(tool: ToolDeclaration, at: str) -> JsonObject:
    """Return the parameters of a tool whose executor cannot provide them. Raises `InvalidRequest`."""
    if tool.parameters is None:
        why = "required: a JSON Schema of type object; {} allows any. Only tools of MCP servers may omit it"
        raise InvalidRequest(f"{at}.parameters", why)
    return tool.parameters


class LocalTools:
    """`ToolRegistry` of the executors without I/O; `others` handles the remaining ones."""

    def __init__(self, others: ToolRegistry | None = None) -> None:
        self._others = others

    async def declare(self, tool: ToolDeclaration, at: str) -> ToolSpec:
        """See `ports.ToolRegistry`."""
        by = tool.execute.get("by")
        if by not in OWN:
            if self._others is None:
                raise InvalidRequest(f"{at}.execute.by", f"expected one of {', '.join(OWN)}")
            return await self._others.declare(tool, at)
        if extra := [name for name in tool.execute if name != "by"]:
            raise InvalidRequest(f"{at}.execute.{extra[0]}", f"unknown field for execute.by {by}")
        return ToolSpec(tool.name, parameters_of(tool, at), tool.description or "")

    def executor(self, executes: Mapping[str, JsonObject], run_id: str) -> Executor:
        """See `ports.ToolRegistry`."""
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
                raise AssertionError(f"no executor for execute.by {by}")
            case _:
                return await self._others.execute(call, key)
