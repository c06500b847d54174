"""Connections to MCP servers with the official `mcp` package: over HTTP, or to a program over stdio."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from forge_proxy._version import __version__
from forge_proxy.tools.addresses import resolve
from forge_proxy.tools.config import McpServerConfig
from forge_proxy.tools.mcp.http import BoundedTransport
from forge_proxy.tools.mcp.program import McpProgram

_INFO = Implementation(name="forge-proxy", version=__version__)

# The package logs messages that it cannot parse, which may contain arguments and results. Errors arrive as exceptions.
logging.getLogger("mcp").addHandler(logging.NullHandler())
logging.getLogger("mcp").propagate = False


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of one session."""

    connect_seconds: float
    size: int
    """Maximum bytes of one server message, and of unsolicited messages within a minute."""
    is_wide: bool = False
    """Whether only a wildcard entry lists its host."""


@asynccontextmanager
async def over_http(
    config: McpServerConfig, bounds: SessionLimits, hear: Callable[[httpx2.Response], Awaitable[None]]
) -> AsyncGenerator[Client]:
    """Connect to the server at `url`. `hear` is called with each response. Raises exception groups of the package."""
    headers = {name: value.get_secret_value() for name, value in config.headers.items()}
    # trust_env=False: no proxy from the environment, as for all requests. The call's timeout limits the response.
    times, hooks = httpx2.Timeout(bounds.connect_seconds, read=None), {"response": [hear]}
    bounded = BoundedTransport(bounds.size, partial(resolve, is_wide=bounds.is_wide))
    async with httpx2.AsyncClient(
        headers=headers, timeout=times, trust_env=False, event_hooks=hooks, transport=bounded
    ) as http:
        transport = streamable_http_client(config.url or "", http_client=http, max_sse_event_size=bounds.size)
        async with Client(transport, client_info=_INFO, cache=None) as client:
            yield client


@asynccontextmanager
async def over_stdio(program: McpProgram) -> AsyncGenerator[Client]:
    """Start the program and connect to it; stop it at the end."""
    async with Client(program.running(), client_info=_INFO, cache=None) as client:
        yield client
