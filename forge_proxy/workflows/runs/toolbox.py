"""Who executes each tool of a run, as the workflow says: `execute.by`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.errors import InvalidWorkflow
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.workflows.runs.ports import Toolbox
from forge_proxy.workflows.tools import Executor, told

OWN = ("caller", "arguments")
"""Ways that begin and end here."""


class OwnTools:
    """`Toolbox` of the ways that need nothing from outside; those of `others` are handed on to them."""

    def __init__(self, others: Toolbox | None = None) -> None:
        self._others = others

    def check(self, execute: JsonObject, at: str) -> None:
        """See `ports.Toolbox`."""
        by = execute.get("by")
        if by in OWN:
            if extra := [name for name in execute if name != "by"]:
                raise InvalidWorkflow(f"{at}.{extra[0]}", f"no such field where a tool is executed by {by}")
        elif self._others is not None:
            self._others.check(execute, at)
        else:
            raise InvalidWorkflow(f"{at}.by", f"expected one of {', '.join(OWN)}")

    @asynccontextmanager
    async def open(self, executes: Mapping[str, JsonObject]) -> AsyncGenerator[Executor]:
        """See `ports.Toolbox`."""
        elsewhere = {name: execute for name, execute in executes.items() if execute["by"] not in OWN}
        others = self._others.open(elsewhere) if self._others and elsewhere else nullcontext(None)
        async with others as executor:
            yield _Dispatch({name: str(execute["by"]) for name, execute in executes.items()}, executor)


class _Dispatch:
    """`Executor` of one run."""

    def __init__(self, by: Mapping[str, str], others: Executor | None) -> None:
        self._by = by
        self._others = others

    async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
        match self._by[call.tool]:
            case "caller":
                return None
            case "arguments":
                return told(call.args() or {})
            case by if self._others is None:
                raise AssertionError(f"nothing executes tools by {by}")
            case _:
                return await self._others.execute(call, key)
