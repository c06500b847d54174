"""Access to MCP servers: checks whether a server may be used, and keeps one session per server from its first use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from weakref import WeakValueDictionary

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.engine.events import ToolServerFailed
from forge_proxy.engine.ports import Observer
from forge_proxy.tools.config import ByMcp, McpConfig, McpServerConfig, McpUrl
from forge_proxy.tools.errors import NotAllowed, SessionEnded, ToolServerUnusable
from forge_proxy.tools.mcp.results import outcome_of, spec_of
from forge_proxy.tools.origins import is_listed, origin_of, plain

if TYPE_CHECKING:
    from forge_proxy.tools.mcp.session import Session

_T = TypeVar("_T")
_KEPT_BY_URL = 16


class McpServers:
    """Calls tools of MCP servers. Leaving the context ends all sessions; later calls fail.

    If a session has ended, the next call opens a new one and restarts the program.
    """

    def __init__(self, config: McpConfig, observe: Observer) -> None:
        self._config = config
        self._observe = observe
        self._sessions: dict[str | McpUrl, Session] = {}
        self._opening: WeakValueDictionary[str | McpUrl, asyncio.Lock] = WeakValueDictionary()
        """One lock per server, so that a slow server does not delay calls to others."""
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        await asyncio.gather(*(session.close() for session in self._sessions.values()))

    def check(self, server: str | McpUrl) -> None:
        """Raise `NotAllowed` if the settings do not allow a server."""
        self._settings_of(server)

    async def list_tools(self, server: str | McpUrl) -> Sequence[ToolSpec]:
        """Return the tools of a server. Raises `NotAllowed` or `ToolServerUnusable`."""
        try:
            listed = await self._ask(server, lambda session: session.tools())
        except ForgeError:
            raise
        except Exception as error:  # the package raises many exception types
            raise ToolServerUnusable(_name_of(server), f"it does not list its tools: {_words(error)}") from error
        return [spec_of(tool) for tool in listed]

    async def execute(self, how: ByMcp, call: ToolCall, key: str) -> ToolOutcome:
        """Execute a call. A call that the server may have received is not retried."""
        tool, seconds = how.tool or call.tool, how.timeout_seconds or self._config.timeout_seconds
        arguments: dict[str, object] = {**(call.args() or {})}
        try:
            return outcome_of(await self._ask(how.server, lambda session: session.call(tool, arguments, key, seconds)))
        except NotAllowed as error:  # it was allowed when the run was submitted
            return ToolOutcome.failed(str(error))
        except TimeoutError:
            why = f"no answer within {seconds:g} s"
            self._observe(ToolServerFailed(_name_of(how.server), tool, key, why))
            return ToolOutcome.failed(f"the tool's server failed: {why}")
        except Exception as error:  # noqa: BLE001 - the package raises many exception types; the model receives the error
            why = (
                error.summary if isinstance(error, ForgeError) else type(error).__name__
            )  # the message may contain results
            self._observe(ToolServerFailed(_name_of(how.server), tool, key, why))
            return ToolOutcome.failed(_words(error))

    async def _ask(self, server: str | McpUrl, ask: Callable[[Session], Awaitable[_T]]) -> _T:
        """Send a request to a server. It is retried once if the server cannot have received it."""
        try:
            return await ask(await self._session(server))
        except SessionEnded as first:
            if first.received:
                raise ToolServerUnusable(_name_of(server), str(first)) from first
        try:
            return await ask(await self._session(server))
        except SessionEnded as second:
            raise ToolServerUnusable(_name_of(server), str(second)) from second

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
                raise ToolServerUnusable(_name_of(server), "forge-proxy is stopping")
            is_wide = isinstance(server, McpUrl) and not is_listed(server.url, plain(self._config.allow))
            bounds = SessionLimits(self._config.connect_seconds, 1024 * self._config.max_answer_kb, is_wide)
            session = self._sessions[server] = Session(_name_of(server), settings, bounds)
            return session

    async def _make_room(self) -> None:
        """Close an idle session if there are too many with servers that are not in the settings."""
        idle = [server for server, session in self._sessions.items() if isinstance(server, McpUrl) and session.is_idle]
        if len(idle) >= _KEPT_BY_URL:
            await self._sessions.pop(idle[0]).close()

    def _settings_of(self, server: str | McpUrl) -> McpServerConfig:
        if isinstance(server, str):
            if server not in self._config.servers:
                named = ", ".join(self._config.servers) or "none"
                raise NotAllowed(f"there is no MCP server {server!r}: name one of tools.mcp.servers, which has {named}")
            return self._config.servers[server]
        if not is_listed(server.url, self._config.allow):
            listed = ", ".join(self._config.allow) or "no origin at all"
            raise NotAllowed(
                f"{origin_of(server.url)} is not among the hosts of MCP servers: add it to tools.mcp.allow, which"
                f" lists {listed}, or the server to tools.mcp.servers"
            )
        return McpServerConfig(url=server.url)


def _name_of(server: str | McpUrl) -> str:
    """Return the server's name for messages and logs: of a URL only the origin, because the rest may contain a key."""
    return server if isinstance(server, str) else origin_of(server.url)


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
