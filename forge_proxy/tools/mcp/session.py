"""One session with an MCP server, kept by a task of its own.

The package's task groups have to be left by the task that entered them. So the owner task opens the connection, waits
until it is to go or the server has gone, and closes it; whoever calls a tool does that from its own task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import cast

import httpx2
from mcp import Client, MCPError
from mcp_types import CONNECTION_CLOSED, CallToolResult, RequestParamsMeta, Tool

from forge_proxy.tools.config import McpServerConfig
from forge_proxy.tools.errors import SessionEnded, ToolServerUnusable
from forge_proxy.tools.mcp.connection import over_http, over_stdio
from forge_proxy.tools.mcp.stderr import LastWords

_KEY = "forge/idempotency-key"
_CLOSING_SECONDS = 10
"""The package gives a program 2 s to end by itself and kills it after 2 more; an HTTP server may not answer at all."""
_PAGES = 100
_SESSION_ID = "mcp-session-id"
_ALL_CLOSED = "Connection closed"
"""The package's words for the end of the session; those for a single call whose answer broke off have the same code."""
_ENDED = "it ended"


class Session:
    """A connection to one server. Made within a running loop, it connects at once; `close` it."""

    def __init__(self, name: str, config: McpServerConfig, connect_seconds: float) -> None:
        self._name = name
        self._config = config
        self._connect_seconds = connect_seconds
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._words = LastWords()
        self._fault: BaseException | None = None
        self._calls = 0
        self._is_forgotten = False
        self.is_over = False
        """Whether it is of no use any more."""
        self._owner = asyncio.create_task(self._own(), name=f"mcp {name}")

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for anything of it."""
        return self._calls == 0

    async def call(self, tool: str, arguments: dict[str, object], key: str, seconds: float) -> CallToolResult:
        """The tool's result. Raises `SessionEnded`, `ToolServerUnusable`, `TimeoutError`, or what the package raises.

        Whoever is cancelled meanwhile, or out of time, has the server told that it may stop.
        """
        meta: RequestParamsMeta = {_KEY: key}
        self._calls += 1
        try:
            client = await self._connected()
            async with asyncio.timeout(seconds):
                return await client.call_tool(tool, arguments, meta=meta)
        except MCPError as error:
            raise await self._gone(error) from error
        finally:
            self._calls -= 1

    async def tools(self) -> Sequence[Tool]:
        """All tools that the server lists. Raises as `call`."""
        found: list[Tool] = []
        cursor: str | None = None
        self._calls += 1
        try:
            client = await self._connected()
            async with asyncio.timeout(self._connect_seconds):
                for _ in range(_PAGES):
                    page = await client.list_tools(cursor=cursor)
                    found += page.tools
                    cursor = page.next_cursor
                    if cursor is None:
                        break
        except MCPError as error:
            raise await self._gone(error) from error
        finally:
            self._calls -= 1
        return found

    async def close(self) -> None:
        """End it, and the program that was started for it."""
        self._leave.set()
        await asyncio.wait({self._owner}, timeout=_CLOSING_SECONDS)
        self._owner.cancel()
        await asyncio.gather(self._owner, return_exceptions=True)

    async def _connected(self) -> Client:
        return await asyncio.shield(self._client)

    async def _gone(self, error: MCPError) -> Exception:
        """The error itself, or `SessionEnded` where it means the end of the session."""
        if self._is_forgotten:
            self.is_over = True
            self._leave.set()
            return SessionEnded("it has forgotten the session", received=False)
        if error.code != CONNECTION_CLOSED:
            return error
        if error.message != _ALL_CLOSED:  # the connection of this one call: there are others
            return SessionEnded(f"it broke off: {error.message}", received=True)
        alone = self._calls == 1  # what fails for one call ends the session for all, and these may have been received
        await self.close()
        refused = self._fault is not None and _holds(self._fault, httpx2.ConnectError)
        return SessionEnded(self._in_words(self._fault), received=not (refused and alone))

    async def _own(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                gone = asyncio.Event()
                async with asyncio.timeout(self._connect_seconds):
                    client = await stack.enter_async_context(self._connect(gone))
                self._client.set_result(client)
                await _either(self._leave, gone)
                self.is_over = True
        except BaseException as error:
            self._fault = error
            if not self._client.done():
                self._client.set_exception(ToolServerUnusable(self._name, self._in_words(error)))
                self._client.exception()  # there may be nobody left who waits for it
            if not isinstance(error, Exception):
                raise
        finally:
            self.is_over = True

    def _connect(self, gone: asyncio.Event) -> AbstractAsyncContextManager[Client]:
        if self._config.url is not None:
            return over_http(self._config, self._connect_seconds, self._look_for_404)
        return over_stdio(self._config, self._words, gone)

    async def _look_for_404(self, response: httpx2.Response) -> None:
        """By the protocol a 404 to a session means that the server does not know it any more, and did nothing."""
        if (
            response.status_code == 404
            and response.request.method == "POST"
            and _SESSION_ID in response.request.headers
        ):
            self._is_forgotten = True

    def _in_words(self, error: BaseException | None) -> str:
        """Why there is no session, and what a program said last."""
        why = " and ".join(self._word(one) for one in _leaves(error)) if error is not None else _ENDED
        return f"{why}: {self._words.last}" if self._words.last else why

    def _word(self, error: BaseException) -> str:
        match error:
            case TimeoutError():
                return f"it did not answer within {self._connect_seconds:g} s"
            case MCPError(code=code) if code == CONNECTION_CLOSED:
                return _ENDED
            case httpx2.ConnectError():
                return "there is no connection to it"
            case _:
                return str(error) or type(error).__name__


async def _either(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def _leaves(error: BaseException) -> list[BaseException]:
    """What went wrong, out of the groups that task groups make of it."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    parts = cast("tuple[BaseException, ...]", error.exceptions)
    return [leaf for one in parts for leaf in _leaves(one)]


def _holds(error: BaseException, kind: type[BaseException]) -> bool:
    return any(isinstance(one, kind) for one in _leaves(error))
