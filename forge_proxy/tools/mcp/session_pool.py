"""One session per MCP server, opened on first use. Checks whether the settings allow a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from pydantic import BaseModel, ConfigDict, Field

from forge_proxy.tools.config import McpConfig, McpServerConfig, ToolServerUrl
from forge_proxy.tools.errors import NotAllowed, SessionEnded, ToolServerUnusable
from forge_proxy.tools.origins import is_listed, origin_of, without_wildcards

if TYPE_CHECKING:
    from forge_proxy.tools.mcp.session import Session

_T = TypeVar("_T")
_MAX_IDLE_BY_URL = 16


class McpUrl(BaseModel):
    """An MCP server that is not in the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: ToolServerUrl = Field(description="Its endpoint (streamable HTTP). tools.mcp.allow must list its origin.")


class SessionPool:
    """The sessions by server. If a session has ended, the next request opens a new one and restarts the program."""

    def __init__(self, config: McpConfig, check_seconds: float) -> None:
        self._config = config
        self._check_seconds = check_seconds
        self._sessions: dict[str | McpUrl, Session] = {}
        self._opening: WeakValueDictionary[str | McpUrl, asyncio.Lock] = WeakValueDictionary()
        """One lock per server, so that a slow server does not delay calls to others."""
        self._closed = False

    async def close(self) -> None:
        """End all sessions; later requests fail."""
        self._closed = True
        await asyncio.gather(*(session.close() for session in self._sessions.values()))

    async def request(self, server: str | McpUrl, send: Callable[[Session], Awaitable[_T]]) -> _T:
        """Send a request to a server. It is retried once if the server cannot have received it.

        Raises `NotAllowed` if the settings do not allow the server, `ToolServerUnusable`, or like `send`.
        """
        try:
            return await send(await self._session(server))
        except SessionEnded as first:
            if first.received:
                raise ToolServerUnusable(display_name(server), str(first)) from first
        try:
            return await send(await self._session(server))
        except SessionEnded as second:
            raise ToolServerUnusable(display_name(server), str(second)) from second

    async def _session(self, server: str | McpUrl) -> Session:
        """Return the current session, or a new one that may not be connected yet."""
        settings = self._settings_of(server)
        opening = self._opening.setdefault(server, asyncio.Lock())
        async with opening:
            session = self._sessions.get(server)
            if session is not None and not session.is_over:
                return session
            if session is not None:
                await session.close()
            if isinstance(server, McpUrl):
                await self._make_room()
            # In a thread: the first import takes 0.3 s.
            await asyncio.to_thread(import_module, "forge_proxy.tools.mcp.session")
            from forge_proxy.tools.mcp.connection import SessionLimits
            from forge_proxy.tools.mcp.session import Session

            if self._closed:
                raise ToolServerUnusable(display_name(server), "forge-proxy is stopping")
            is_wildcard = isinstance(server, McpUrl) and not is_listed(
                server.url, without_wildcards(self._config.allow)
            )
            limits = SessionLimits(
                self._config.connect_seconds, self._check_seconds, 1024 * self._config.max_message_kb, is_wildcard
            )
            session = self._sessions[server] = Session(display_name(server), settings, limits)
            return session

    async def _make_room(self) -> None:
        """Close an idle session if there are too many with servers that are not in the settings."""
        idle = [server for server, session in self._sessions.items() if isinstance(server, McpUrl) and session.is_idle]
        if len(idle) >= _MAX_IDLE_BY_URL:
            await self._sessions.pop(idle[0]).close()

    def _settings_of(self, server: str | McpUrl) -> McpServerConfig:
        """Return the settings of a server. Raises `NotAllowed`."""
        if isinstance(server, str):
            if server not in self._config.servers:
                named = ", ".join(self._config.servers) or "none"
                raise NotAllowed(f"there is no MCP server {server!r}: name one of tools.mcp.servers, which has {named}")
            return self._config.servers[server]
        if not is_listed(server.url, self._config.allow):
            listed = ", ".join(self._config.allow) or "no origin"
            raise NotAllowed(
                f"{origin_of(server.url)} is not among the hosts of MCP servers: add it to tools.mcp.allow, which"
                f" lists {listed}, or the server to tools.mcp.servers"
            )
        return McpServerConfig(url=server.url)


def display_name(server: str | McpUrl) -> str:
    """Return the server's name for messages and logs: of a URL only the origin, because the rest may contain a key."""
    return server if isinstance(server, str) else origin_of(server.url)
