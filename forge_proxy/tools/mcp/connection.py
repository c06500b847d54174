"""Connections to MCP servers by the official package: over HTTP, or to a program that is started."""

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

from forge_proxy import __version__
from forge_proxy.tools.addresses import resolve
from forge_proxy.tools.config import McpServerConfig
from forge_proxy.tools.mcp.http import BoundedTransport
from forge_proxy.tools.mcp.program import McpProgram

_INFO = Implementation(name="forge-proxy", version=__version__)

# It logs what it cannot read, which may hold arguments and results; what is of interest comes as an exception.
logging.getLogger("mcp").addHandler(logging.NullHandler())
logging.getLogger("mcp").propagate = False


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Of one session."""

    connect_seconds: float
    size: int
    """Bytes of one message of the server, and of what it sends within a minute without being asked."""
    is_wide: bool = False
    """Whether its host is listed only by an entry with a `*`."""


@asynccontextmanager
async def over_http(
    config: McpServerConfig, bounds: SessionLimits, hear: Callable[[httpx2.Response], Awaitable[None]]
) -> AsyncGenerator[Client]:
    """A client of the server at `url`. `hear` is told of each answer. Raises what the package raises, in groups."""
    headers = {name: value.get_secret_value() for name, value in config.headers.items()}
    # As all that we call: no proxy from the environment. An answer may take as long as the call may.
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
    """A client of the program, which is started, and ended in the end."""
    async with Client(program.running(), client_info=_INFO, cache=None) as client:
        yield client
