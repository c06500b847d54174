"""A program that has started an MCP server, as the daemon does. It says the pids of what was started, and waits."""

from __future__ import annotations

import asyncio
import json
import sys

import uvloop

from forge_proxy.core.messages import ToolCall
from forge_proxy.tools.config import ByMcp, McpConfig, McpServerConfig
from forge_proxy.tools.mcp.servers import McpServers


async def main() -> None:
    command = McpServerConfig(command=sys.executable, args=("-m", "tests.fakes.mcp_server", sys.argv[1]))
    async with McpServers(McpConfig(servers={"here": command}), lambda _: None) as servers:
        outcome = await servers.execute(ByMcp(server="here"), ToolCall.of("pids"), "key")
        print(json.dumps({"event": "started", "pids": outcome.value["result"]}), flush=True)  # noqa: T201
        await asyncio.to_thread(sys.stdin.read)


uvloop.run(main())
