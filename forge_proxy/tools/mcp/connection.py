"""Connections to MCP servers by the official package: over HTTP, or to a program that is started."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import Implementation

from forge_proxy import __version__
from forge_proxy.tools.config import McpServerConfig
from forge_proxy.tools.mcp.stderr import LastWords, opened_stderr

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_CHILD = Path(__file__).with_name("child.py")
_INFO = Implementation(name="forge-proxy", version=__version__)

# It logs what it cannot read, which may hold arguments and results; what is of interest comes as an exception.
logging.getLogger("mcp").addHandler(logging.NullHandler())
logging.getLogger("mcp").propagate = False


@asynccontextmanager
async def over_http(
    config: McpServerConfig, connect_seconds: float, hear: Callable[[httpx2.Response], Awaitable[None]]
) -> AsyncGenerator[Client]:
    """A client of the server at `url`. `hear` is told of each answer. Raises what the package raises, in groups."""
    headers = {name: value.get_secret_value() for name, value in config.headers.items()}
    # As all that we call: no proxy from the environment. An answer may take as long as the call may.
    times, hooks = httpx2.Timeout(connect_seconds, read=None), {"response": [hear]}
    async with httpx2.AsyncClient(headers=headers, timeout=times, trust_env=False, event_hooks=hooks) as http:
        transport = streamable_http_client(config.url or "", http_client=http)
        async with Client(transport, client_info=_INFO, cache=None) as client:
            yield client


@asynccontextmanager
async def over_stdio(config: McpServerConfig, words: LastWords, gone: asyncio.Event) -> AsyncGenerator[Client]:
    """A client of the program, which is started, and ended in the end. `gone` is set when it says nothing more."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-I", "-S", str(_CHILD), str(os.getpid()), config.command or "", *config.args],
        env={name: value.get_secret_value() for name, value in config.env.items()},
        cwd=config.cwd,
    )
    async with opened_stderr(words) as errors:
        transport = _noticing(stdio_client(parameters, errlog=errors), gone)
        async with Client(transport, client_info=_INFO, cache=None) as client:
            yield client


@asynccontextmanager
async def _noticing(
    transport: AbstractAsyncContextManager[TransportStreams], gone: asyncio.Event
) -> AsyncGenerator[TransportStreams]:
    """The transport, with an event that is set when nothing more comes. The package tells only whoever calls next, and
    in the same words as one whose call was under way.
    """
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with transport as (read, write), anyio.create_task_group() as tasks:

        async def forward() -> None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async with send:
                    async for message in read:
                        await send.send(message)
            gone.set()

        tasks.start_soon(forward)
        try:
            yield receive, write
        finally:
            tasks.cancel_scope.cancel()
            receive.close()
