"""MCP servers over HTTP that hang, exceed limits or redirect: the call is bounded and the next one is answered."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import pytest
from aiohttp import web

from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.tools.config import McpConfig, McpServerConfig
from forge_proxy.tools.mcp.executor import McpExecution, McpExecutor

LIMIT_KB = 256


@cache
def make_bomb() -> bytes:
    """Fifty megabytes of spaces, compressed without ever being in memory at once."""
    packer = zlib.compressobj(wbits=31)
    return b"".join([packer.compress(b" " * 1_000_000) for _ in range(50)]) + packer.flush()


class Server:
    """A server of the protocol version with a handshake. Its tools misbehave as their names say."""

    def __init__(self) -> None:
        self.hangs = False
        self.greeted = 0
        self.elsewhere: list[str] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/elsewhere":
            self.elsewhere.append(request.method)
            return web.Response(status=500)
        message: dict[str, Any] = await request.json() if request.method == "POST" else {}
        if self.hangs:
            await asyncio.sleep(1000)
        match message.get("method"):
            case "initialize":
                self.greeted += 1
                version = message["params"]["protocolVersion"]
                info = {"name": "hostile", "version": "1"}
                return self.result(
                    message, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
                )
            case "tools/list":
                return self.result(message, {"tools": []})
            case "tools/call":
                return await getattr(self, message["params"]["name"])(request, message)
            case method if method is not None and "id" in message:
                error = {"code": -32601, "message": "no such method"}
                return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error})
            case _:
                return web.Response(status=202 if message else 405)

    def result(self, message: dict[str, Any], result: dict[str, Any]) -> web.Response:
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def fine(self, _: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        return self.result(message, {"content": [{"type": "text", "text": "fine"}]})

    async def hang(self, _: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        self.hangs = True
        await asyncio.sleep(1000)
        return web.Response()

    async def endless_json(self, request: web.Request, _: dict[str, Any]) -> web.StreamResponse:
        return await self.endless(request, "application/json", b"[" * 65536)

    async def endless_event(self, request: web.Request, _: dict[str, Any]) -> web.StreamResponse:
        return await self.endless(request, "text/event-stream", b"data: " + b"x" * 65536 + b"\n")

    async def endless_events(self, request: web.Request, _: dict[str, Any]) -> web.StreamResponse:
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
        return await self.endless(request, "text/event-stream", f"data: {note}\n\n".encode() * 100)

    async def bomb(self, _: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        return web.Response(body=make_bomb(), headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})

    async def redirect(self, request: web.Request, _: dict[str, Any]) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect(f"http://localhost:{request.url.port}/elsewhere")

    async def not_a_number(self, _: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        return self.result(message, {"content": [], "structuredContent": {"a": float("nan")}})

    async def endless(self, request: web.Request, kind: str, piece: bytes) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": kind})
        await answer.prepare(request)
        while True:
            await answer.write(piece)
            await asyncio.sleep(0)


@asynccontextmanager
async def served() -> AsyncGenerator[tuple[Server, McpExecutor]]:
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    config = McpConfig(servers={"here": McpServerConfig(url=url)}, max_message_kb=LIMIT_KB)
    try:
        async with McpExecutor(config, lambda _: None, check_seconds=0.5) as servers:
            yield server, servers
    finally:
        await runner.cleanup()


async def call_tool(servers: McpExecutor, tool: str, seconds: float = 60) -> ToolOutcome:
    return await servers.execute(
        McpExecution(server="here", timeout_seconds=seconds), ToolCall.of(tool, {}), "k", "run-1"
    )


async def test_an_unresponsive_http_server_gets_a_new_session() -> None:
    async with served() as (server, servers):
        await call_tool(servers, "fine")
        outcome = await call_tool(servers, "hang", seconds=0.2)
        await asyncio.wait([task for task in asyncio.all_tasks() if task.get_name() == "mcp here: check"])
        server.hangs = False

        after = await call_tool(servers, "fine")

    assert outcome == ToolOutcome.failed("the tool's server failed: no response within 0.2 s")
    assert (after.text, server.greeted) == ("fine", 2)


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ("endless_json", "it sent a response of more than 256 KB"),
        ("endless_event", "256"),
        ("endless_events", "it sent a response of more than 256 KB"),
        ("bomb", "it sent Content-Encoding gzip, which was not requested"),
        ("redirect", "/elsewhere not followed"),
        ("not_a_number", "not valid JSON"),
    ],
)
async def test_a_forbidden_response_is_an_error_with_the_reason(tool: str, why: str) -> None:
    async with served() as (server, servers):
        await call_tool(servers, "fine")
        tracemalloc.start()

        outcome = await call_tool(servers, tool)

        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert outcome.status == "error"
        assert why in outcome.text
        assert peak < 16 * 1024 * LIMIT_KB
        assert server.elsewhere == []
        assert (await call_tool(servers, "fine")).text == "fine"
