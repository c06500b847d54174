"""Calls tools of MCP servers, by the official package."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.tools.config import ByMcp, McpConfig, McpUrl


class McpServers:
    """The sessions with MCP servers, one each, from their first use on. Leaving the context ends them."""

    def __init__(self, config: McpConfig) -> None:
        self._config = config

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def check(self, server: str | McpUrl) -> None:
        """Raise `NotAllowed` for a server that is not to be used."""
        raise NotImplementedError

    async def list_tools(self, server: str | McpUrl) -> Sequence[ToolSpec]:
        """The tools that a server has. Raises `NotAllowed` or `ToolServerUnusable`."""
        raise NotImplementedError

    async def execute(self, how: ByMcp, call: ToolCall, key: str) -> ToolOutcome:
        """What came of a call."""
        raise NotImplementedError
