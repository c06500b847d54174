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
    check_seconds: float
    """Time limit for listing tools after a call timed out, to check that the server is responsive."""
    size: int
    """Maximum bytes of one server message, and of unsolicited messages within a minute."""
    is_wildcard: bool = False
    """Whether only a wildcard entry lists its host."""


@asynccontextmanager
async def connect_http(
    config: McpServerConfig, limits: SessionLimits, on_response: Callable[[httpx2.Response], Awaitable[None]]
) -> AsyncGenerator[Client]:
    """Connect to the server at `url`. `on_response` is called with each response. Raises the package's exceptions."""
    headers = {name: value.get_secret_value() for name, value in config.headers.items()}
    # trust_env=False: no proxy from the environment, as for all requests. The call's timeout limits the response.
    timeout, hooks = httpx2.Timeout(limits.connect_seconds, read=None), {"response": [on_response]}
    bounded_transport = BoundedTransport(limits.size, partial(resolve, is_wildcard=limits.is_wildcard))
    async with httpx2.AsyncClient(
        headers=headers, timeout=timeout, trust_env=False, event_hooks=hooks, transport=bounded_transport
    ) as http:
        transport = streamable_http_client(config.url or "", http_client=http, max_sse_event_size=limits.size)
        async with Client(transport, client_info=_INFO, cache=None) as client:
            yield client


@asynccontextmanager
async def connect_stdio(program: McpProgram) -> AsyncGenerator[Client]:
    """Start the program and connect to it; stop it at the end."""
    async with Client(program.running(), client_info=_INFO, cache=None) as client:
        yield client
