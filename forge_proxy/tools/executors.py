"""Executes the tools of runs as their declarations specify. The entry point of this package."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from forge_proxy.core.chat import Schema, ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.engine.ports import Observer
from forge_proxy.tools.callbacks import HttpCallback
from forge_proxy.tools.config import ByHttp, ByMcp, ToolSettings
from forge_proxy.tools.errors import NotAllowed
from forge_proxy.tools.mcp.servers import McpServers
from forge_proxy.tools.ports import Clock, HttpClient
from forge_proxy.workflows.tools import Executor


class ToolExecutors:
    """Factory of tool executors. Leaving its context ends the MCP sessions; existing executors fail from then on.

    It does not close `http`, which must be a client of its own: the limits for a model server do not fit tools.
    """

    def __init__(self, settings: ToolSettings, http: HttpClient, clock: Clock, observe: Observer) -> None:
        self._callbacks = HttpCallback(settings.callbacks, http, clock, observe)
        self._servers = McpServers(settings.mcp, observe)

    async def __aenter__(self) -> Self:
        await self._servers.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._servers.__aexit__(kind, error, trace)

    async def declare(
        self,
        at: str,
        name: str,
        how: ByHttp | ByMcp | None,
        description: str | None = None,
        parameters: Schema | None = None,
    ) -> ToolSpec:
        """Check that a tool may be executed as declared, and return its specification for the model.

        Omitted fields of an MCP tool are filled in from the server. `how` is None for a tool that the client executes.
        `at` is the path of the declaration in the request. Raises `InvalidRequest` or `ToolServerUnusable`.
        """
        field = "url" if isinstance(how, ByHttp) else "server"
        try:
            match how:
                case ByHttp():
                    self._callbacks.check(how)
                case ByMcp():
                    self._servers.check(how.server)
                case None:
                    pass
        except NotAllowed as error:
            raise InvalidRequest(f"{at}.execute.{field}", str(error)) from error
        if not isinstance(how, ByMcp):
            return ToolSpec(name, True if parameters is None else parameters, description or "")
        available = {one.name: one for one in await self._servers.list_tools(how.server)}
        found = available.get(how.tool or name)
        if found is None:
            names = ", ".join(available) or "none"
            raise InvalidRequest(f"{at}.execute.tool", f"the server has no tool {how.tool or name!r}; it has: {names}")
        return ToolSpec(
            name,
            found.parameters if parameters is None else parameters,
            found.description if description is None else description,
        )

    def executor(self, tools: Mapping[str, ByHttp | ByMcp], run_id: str) -> Executor:
        """Return the executor of one run. The client executes tools that are not in `tools`."""
        return _Executor(self._callbacks, self._servers, tools, run_id)


class _Executor:
    """`Executor` of one run."""

    def __init__(
        self, callbacks: HttpCallback, servers: McpServers, tools: Mapping[str, ByHttp | ByMcp], run_id: str
    ) -> None:
        self._callbacks = callbacks
        self._servers = servers
        self._tools = tools
        self._run_id = run_id

    async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
        """See `workflows.tools.Executor`."""
        match self._tools.get(call.tool):
            case ByHttp() as how:
                return await self._callbacks.execute(how, call, key, self._run_id)
            case ByMcp() as how:
                return await self._servers.execute(how, call, key)
            case None:
                return None
