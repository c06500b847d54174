"""One session with an MCP server, kept by a task of its own.

The package's task groups have to be left by the task that entered them. So the owner task opens the connection, waits
until it is to go or the server has gone, and closes it; whoever calls a tool does that from its own task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import cast

import httpx2
from mcp import Client, MCPError
from mcp_types import CONNECTION_CLOSED, CallToolResult, RequestParamsMeta, Tool

from forge_proxy.tools.addresses import ForbiddenAddress
from forge_proxy.tools.config import McpServerConfig
from forge_proxy.tools.errors import SessionEnded, ToolServerUnusable
from forge_proxy.tools.mcp.connection import SessionLimits, over_http, over_stdio
from forge_proxy.tools.mcp.program import McpProgram
from forge_proxy.tools.mcp.stderr import StderrTail

_KEY = "forge/idempotency-key"
_CLOSING_SECONDS = 10
"""The package gives a program 2 s to end by itself and kills it after 2 more; an HTTP server may not answer at all."""
_PAGES = 100
_SESSION_ID = "mcp-session-id"
_ALL_CLOSED = "Connection closed"
"""The package's words for the end of the session; those for a single call whose answer broke off have the same code."""
_ENDED = "it ended"
_ALIVE_SECONDS = 5.0
"""In which a server lists its tools that lives, after a call that was out of time."""
_LOG = logging.getLogger(__name__)


class SessionUnresponsive(Exception):
    """A server answers nothing any more."""


class Session:
    """A connection to one server. Made within a running loop, it connects at once; `close` it."""

    def __init__(self, name: str, config: McpServerConfig, bounds: SessionLimits) -> None:
        self._name = name
        self._config = config
        self._bounds = bounds
        self._connect_seconds = bounds.connect_seconds
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._words = StderrTail()
        self._program = McpProgram(config, self._words, bounds.size) if config.url is None else None
        self._fault: BaseException | None = None
        self._checking: asyncio.Task[None] | None = None
        """Finds out whether the server still answers, after a call that was out of time."""
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

        Whoever is cancelled meanwhile, or out of time, has the server told that it may stop. A server that then does
        not answer anything else either is replaced.
        """
        meta: RequestParamsMeta = {_KEY: key}
        self._calls += 1
        try:
            client = await self._usable()
            async with asyncio.timeout(seconds):
                return await client.call_tool(tool, arguments, meta=meta)
        except TimeoutError:
            self._doubt()
            raise
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
            client = await self._usable()
            async with asyncio.timeout(self._connect_seconds):
                for _ in range(_PAGES):
                    page = await client.list_tools(cursor=cursor)
                    found += page.tools
                    cursor = page.next_cursor
                    if cursor is None:
                        break
        except TimeoutError:
            self._doubt()
            raise
        except MCPError as error:
            raise await self._gone(error) from error
        finally:
            self._calls -= 1
        return found

    async def close(self) -> None:
        """End it, and the program that was started for it."""
        self._leave.set()
        if self._checking is not None:
            self._checking.cancel()
        await asyncio.wait({self._owner}, timeout=_CLOSING_SECONDS)
        self._owner.cancel()
        await asyncio.gather(self._owner, return_exceptions=True)

    async def _usable(self) -> Client:
        """Wait for the connection, and for what comes of a doubt. Raises `SessionEnded` if it is over."""
        client = await asyncio.shield(self._client)
        if self._checking is not None:
            await asyncio.wait({self._checking})
        if self.is_over:
            raise SessionEnded(self._in_words(self._fault), received=False)
        return client

    def _doubt(self) -> None:
        """A call was out of time: the tool may be slow, or the server hang."""
        if self._checking is None and self._client.done() and not self.is_over:
            self._checking = asyncio.create_task(self._check(self._client.result()), name=f"mcp {self._name}: check")

    async def _check(self, client: Client) -> None:
        try:
            async with asyncio.timeout(_ALIVE_SECONDS):
                await client.list_tools()
        except TimeoutError:
            self._replace(
                SessionUnresponsive(
                    f"it answered nothing within {_ALIVE_SECONDS:g} s after a call that was out of time"
                )
            )
        except Exception as error:  # noqa: BLE001 - the package raises many things, and each of them is an answer
            _LOG.debug("the MCP server %s answers with %s", self._name, type(error).__name__)
        finally:
            self._checking = None

    def _replace(self, why: SessionUnresponsive) -> None:
        """End the session at once: the next call begins another one, and starts the program again."""
        self._fault = why
        self.is_over = True
        if self._program is not None:
            self._program.kill()
        else:
            self._owner.cancel()  # a server that hangs gets no shutdown request

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
                gone = asyncio.Event() if self._program is None else self._program.gone
                async with asyncio.timeout(self._connect_seconds):
                    client = await stack.enter_async_context(self._connect())
                self._client.set_result(client)
                await _either(self._leave, gone)
                self.is_over = True
                if self._program is not None and self._program.flood is not None:
                    self._fault = self._program.flood
        except BaseException as error:
            self._fault = self._fault or error
            if not self._client.done():
                self._client.set_exception(ToolServerUnusable(self._name, self._in_words(error)))
                self._client.exception()  # there may be nobody left who waits for it
            if not isinstance(error, Exception):
                raise
        finally:
            self.is_over = True

    def _connect(self) -> AbstractAsyncContextManager[Client]:
        if self._program is None:
            return over_http(self._config, self._bounds, self._look_for_404)
        return over_stdio(self._program)

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
            case httpx2.ConnectError(__cause__=ForbiddenAddress() as cause):
                return str(cause)
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
