"""The kinds of tool executors, each in one line. The entry point of this package."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from forge_proxy.engine.ports import Observer
from forge_proxy.tools.callbacks import HttpExecutor
from forge_proxy.tools.config import ToolSettings
from forge_proxy.tools.local import ClientExecutor, EchoExecutor
from forge_proxy.tools.mcp.executor import McpExecutor
from forge_proxy.tools.ports import ToolClock, ToolHttpClient
from forge_proxy.workflows.tool_registry import ToolRegistry


@asynccontextmanager
async def open_registry(
    settings: ToolSettings, http: ToolHttpClient, clock: ToolClock, observe: Observer
) -> AsyncGenerator[ToolRegistry]:
    """Open a registry of all kinds; at the end, MCP sessions end and later calls fail.

    Does not close `http`, which must not be the client for the model server: its limits do not fit tools.
    """
    async with McpExecutor(settings.mcp, observe) as mcp:
        yield ToolRegistry(
            ClientExecutor(),
            EchoExecutor(),
            HttpExecutor(settings.callbacks, http, clock, observe),
            mcp,
        )
