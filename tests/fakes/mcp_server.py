"""An MCP server made with the official package, as a program: `stdio`, `stubborn`, `http PORT` or `legacy PORT`.

`stubborn` uses stdio and ends neither with its stdin nor on request. `legacy` uses HTTP and supports only the protocol
with a handshake and sessions.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

server = MCPServer("for tests", log_level="CRITICAL")
begun: list[str] = []
stopped: list[str] = []


class Weather(BaseModel):
    city: str
    degrees: int


@server.tool()
def weather(city: str) -> Weather:
    """The weather in a city."""
    return Weather(city=city, degrees=3)


@server.tool()
def greet(name: str) -> str:
    return f"Hello {name}"


@server.tool()
def count(n: int) -> str:
    """Count up by one."""
    return f"counted {n}"


@server.tool()
def fail() -> str:
    raise ValueError


@server.tool(structured_output=False)
def picture() -> list[Any]:
    return ["look:", Image(data=b"\x89PNG", format="png")]


@server.tool()
def told(ctx: Context[Any, Any]) -> dict[str, Any]:
    """Return the metadata and headers of the call."""
    headers = ctx.headers or {}
    meta: dict[str, Any] = {**(ctx.request_context.meta or {})}
    return {"key": meta.get("forge/idempotency-key"), "authorization": headers.get("authorization")}


@server.tool()
async def wait(call: str) -> str:
    """Take longer than any time limit."""
    begun.append(call)
    try:
        await asyncio.sleep(1000)
    finally:
        stopped.append(call)
    return "over"


@server.tool()
def begins() -> list[str]:
    """Return how many calls of `wait` began."""
    return begun


@server.tool()
def stops() -> list[str]:
    """Return how many calls of `wait` were cancelled."""
    return stopped


@server.tool()
def end() -> str:
    """End the server in the middle of the call."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@server.tool()
def pids() -> list[int]:
    """Return the pids of this program and of one that it starts."""
    started = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return [os.getpid(), started.pid]


@server.tool()
def environment() -> dict[str, str]:
    return {**os.environ, "cwd": os.getcwd()}  # noqa: PTH109  # a word, not a path


class WithoutTheModernProtocol:
    """Answer requests of the protocol of 2026 with a 404."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (b"mcp-protocol-version", b"2026-07-28") in scope.get("headers", ()):
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)


def serve(app: ASGIApp, port: int) -> None:
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen()
        print(json.dumps({"event": "listening", "port": listening.getsockname()[1]}), flush=True)  # noqa: T201
        uvicorn.Server(uvicorn.Config(app, log_level="critical")).run([listening])


def main() -> None:
    kind, *words = sys.argv[1:]
    if kind in ("http", "legacy"):
        app: ASGIApp = server.streamable_http_app()
        serve(WithoutTheModernProtocol(app) if kind == "legacy" else app, int(words[0]))
        return
    if kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server.run()
    if kind == "stubborn":
        time.sleep(1000)


if __name__ == "__main__":
    main()
