"""A program that has started an MCP server, as the daemon does. It prints the pids of what it started, and waits.

Its arguments are the server's module, the tool that returns the pids, and the server's arguments.
"""

from __future__ import annotations

import asyncio
import json
import sys

import uvloop

from forge_proxy.core.messages import ToolCall
from forge_proxy.tools.config import McpConfig, McpServerConfig
from forge_proxy.tools.mcp.executor import McpExecution, McpExecutor

_SECONDS = 300
"""Seconds that it waits to be killed. It reads nothing: the standard input of a test is empty."""


async def main() -> None:
    module, tool, *words = sys.argv[1:]
    command = McpServerConfig(command=sys.executable, args=("-m", module, *words))
    async with McpExecutor(McpConfig(servers={"here": command}), lambda _: None) as servers:
        outcome = await servers.execute(McpExecution(server="here"), ToolCall.of(tool), "key", "run-1")
        pids = outcome.value["result"] if isinstance(outcome.value, dict) else [int(outcome.text)]
        print(json.dumps({"event": "started", "pids": pids}), flush=True)  # noqa: T201
        await asyncio.sleep(_SECONDS)


uvloop.run(main())
