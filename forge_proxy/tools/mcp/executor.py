"""Executes tools of MCP servers."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.errors import ForgeError, InvalidRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.engine.events import ToolServerFailed
from forge_proxy.engine.ports import Observer
from forge_proxy.tools.config import McpConfig
from forge_proxy.tools.errors import NotAllowed, ToolServerUnusable
from forge_proxy.tools.mcp.results import to_outcome, to_spec
from forge_proxy.tools.mcp.session_pool import McpUrl, SessionPool, display_name
from forge_proxy.workflows.tool_registry import ToolDeclaration, parse_definition


class McpExecution(BaseModel):
    """A tool of an MCP server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: Literal["mcp"] = "mcp"
    server: str | McpUrl = Field(description="A name from tools.mcp.servers, or the URL of another server.")
    tool: str | None = Field(
        default=None, min_length=1, description="The tool's name on the server. Default: the same name."
    )
    timeout_seconds: float | None = Field(
        default=None, gt=0, le=3600, description="Time limit of one call. Default: the setting."
    )


class McpExecutor:
    """`ToolExecutor` of MCP tools. Leaving the context ends all sessions; later calls fail.

    A server that does not list its tools within `check_seconds` after a call timed out is replaced.
    """

    kind = "mcp"
    is_external = True

    def __init__(self, config: McpConfig, observe: Observer, check_seconds: float = 5) -> None:
        self._timeout_seconds = config.timeout_seconds
        self._observe = observe
        self._sessions = SessionPool(config, check_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._sessions.close()

    def parse(self, execute: JsonObject, at: str) -> McpExecution:
        """See `ToolExecutor`."""
        return parse_definition(McpExecution, execute, at)

    async def declare(self, tool: ToolDeclaration, definition: McpExecution, at: str) -> ToolSpec:
        """Return the tool; omitted fields are filled in from the server. Raises like `ToolExecutor`."""
        try:
            available = {spec.name: spec for spec in await self.list_tools(definition.server)}
        except NotAllowed as error:
            raise InvalidRequest(f"{at}.execute.server", str(error)) from error
        name = definition.tool or tool.name
        found = available.get(name)
        if found is None:
            names = ", ".join(available) or "none"
            raise InvalidRequest(f"{at}.execute.tool", f"the server has no tool {name!r}; it has: {names}")
        return ToolSpec(
            tool.name,
            found.parameters if tool.parameters is None else tool.parameters,
            found.description if tool.description is None else tool.description,
        )

    async def list_tools(self, server: str | McpUrl) -> Sequence[ToolSpec]:
        """Return the tools of a server. Raises `NotAllowed` or `ToolServerUnusable`."""
        try:
            listed = await self._sessions.request(server, lambda session: session.list_tools())
        except ForgeError:
            raise
        except Exception as error:  # the package raises many exception types
            why = f"it does not list its tools: {_describe(error)}"
            raise ToolServerUnusable(display_name(server), why) from error
        return [to_spec(tool) for tool in listed]

    async def execute(self, definition: McpExecution, call: ToolCall, key: str, run_id: str) -> ToolOutcome:
        """Execute a call. A call that the server may have received is not retried."""
        server, tool = definition.server, definition.tool or call.tool
        seconds = definition.timeout_seconds or self._timeout_seconds
        arguments: dict[str, object] = {**(call.args() or {})}
        try:
            result = await self._sessions.request(
                server, lambda session: session.call_tool(tool, arguments, key, seconds)
            )
            return to_outcome(result)
        except NotAllowed as error:  # it was allowed when the run was submitted
            return ToolOutcome.failed(str(error))
        except TimeoutError:
            why = f"no response within {seconds:g} s"
            self._observe(ToolServerFailed(display_name(server), tool, key, why))
            return ToolOutcome.failed(f"the tool's server failed: {why}")
        except Exception as error:  # noqa: BLE001 - the package raises many exception types; the model receives the error
            # Not the message: it may contain results.
            why = error.summary if isinstance(error, ForgeError) else type(error).__name__
            self._observe(ToolServerFailed(display_name(server), tool, key, why))
            return ToolOutcome.failed(_describe(error))


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__
