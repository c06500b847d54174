"""One session with an MCP server, owned by a dedicated task.

The package's task groups must be exited by the task that entered them. Therefore the owner task opens the connection,
waits until `close` is called or the server ends, and closes it. Tool calls run in the tasks of their callers.
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
from forge_proxy.tools.mcp.connection import SessionLimits, connect_http, connect_stdio
from forge_proxy.tools.mcp.program import McpProgram
from forge_proxy.tools.mcp.stderr import StderrTail

_KEY_FIELD = "forge/idempotency-key"
_CLOSING_SECONDS = 10
"""A program gets 2 s to exit by itself and 2 s after SIGTERM; an HTTP server may not answer at all."""
_MAX_PAGES = 100
_SESSION_ID = "mcp-session-id"
_SESSION_CLOSED = "Connection closed"
"""The package's message for the end of a session. The error of a single aborted response has the same code."""
_ENDED = "it ended"
_LOG = logging.getLogger(__name__)


class SessionUnresponsive(Exception):
    """A server does not answer any request."""


class Session:
    """A connection to one server. Connects when created, within a running event loop; call `close` at the end."""

    def __init__(self, name: str, config: McpServerConfig, limits: SessionLimits) -> None:
        self._name = name
        self._config = config
        self._limits = limits
        self._connect_seconds = limits.connect_seconds
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._stderr = StderrTail()
        self._program = McpProgram(config, self._stderr, limits.size) if config.url is None else None
        self._fault: BaseException | None = None
        self._check_task: asyncio.Task[None] | None = None
        """Checks whether the server is responsive, after a call timed out."""
        self._calls = 0
        self._is_unknown_to_server = False
        self.is_over = False
        """Whether the session has ended."""
        self._task = asyncio.create_task(self._run(), name=f"mcp {name}")

    @property
    def is_idle(self) -> bool:
        """Whether no request is pending."""
        return self._calls == 0

    async def call_tool(self, tool: str, arguments: dict[str, object], key: str, seconds: float) -> CallToolResult:
        """Call a tool. Raises `SessionEnded`, `ToolServerUnusable`, `TimeoutError`, or an exception of the package.

        If the call is cancelled or times out, the server receives a cancel notification. A server that then answers no
        other request is replaced.
        """
        meta: RequestParamsMeta = {_KEY_FIELD: key}
        self._calls += 1
        try:
            client = await self._ready_client()
            async with asyncio.timeout(seconds):
                return await client.call_tool(tool, arguments, meta=meta)
        except TimeoutError:
            self._start_check()
            raise
        except MCPError as error:
            raise await self._to_session_error(error) from error
        finally:
            self._calls -= 1

    async def list_tools(self) -> Sequence[Tool]:
        """Return all tools of the server. Raises like `call`."""
        found: list[Tool] = []
        cursor: str | None = None
        self._calls += 1
        try:
            client = await self._ready_client()
            async with asyncio.timeout(self._connect_seconds):
                for _ in range(_MAX_PAGES):
                    page = await client.list_tools(cursor=cursor)
                    found += page.tools
                    cursor = page.next_cursor
                    if cursor is None:
                        break
        except TimeoutError:
            self._start_check()
            raise
        except MCPError as error:
            raise await self._to_session_error(error) from error
        finally:
            self._calls -= 1
        return found

    async def close(self) -> None:
        """End the session and its program."""
        self._closing.set()
        if self._check_task is not None:
            self._check_task.cancel()
        await asyncio.wait({self._task}, timeout=_CLOSING_SECONDS)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _ready_client(self) -> Client:
        """Wait for the connection and for a running check. Raises `SessionEnded` if the session has ended."""
        client = await asyncio.shield(self._client)
        if self._check_task is not None:
            await asyncio.wait({self._check_task})
        if self.is_over:
            raise SessionEnded(self._describe_end(self._fault), received=False)
        return client

    def _start_check(self) -> None:
        """Start a check after a call timed out: the tool may be slow, or the server may hang."""
        if self._check_task is None and self._client.done() and not self.is_over:
            self._check_task = asyncio.create_task(self._check(self._client.result()), name=f"mcp {self._name}: check")

    async def _check(self, client: Client) -> None:
        try:
            async with asyncio.timeout(self._limits.check_seconds):
                await client.list_tools()
        except TimeoutError:
            self._end_unresponsive(
                SessionUnresponsive(
                    f"it sent no response within {self._limits.check_seconds:g} s after a call timed out"
                )
            )
        except Exception as error:  # noqa: BLE001 - the package raises many exception types; each means that the server answered
            _LOG.debug("the MCP server %s responded with %s", self._name, type(error).__name__)
        finally:
            self._check_task = None

    def _end_unresponsive(self, why: SessionUnresponsive) -> None:
        """End the session at once; the next call opens a new one and restarts the program."""
        self._fault = why
        self.is_over = True
        if self._program is not None:
            self._program.kill()
        else:
            self._task.cancel()  # a server that hangs gets no shutdown request

    async def _to_session_error(self, error: MCPError) -> Exception:
        """Return the error itself, or `SessionEnded` if it means the end of the session."""
        if self._is_unknown_to_server:
            self.is_over = True
            self._closing.set()
            return SessionEnded("it has lost the session", received=False)
        if error.code != CONNECTION_CLOSED:
            return error
        if error.message != _SESSION_CLOSED:  # only this call's connection broke
            return SessionEnded(f"the connection was interrupted: {error.message}", received=True)
        alone = self._calls == 1  # the session ends for all calls, and the others may have been received
        await self.close()
        refused = self._fault is not None and _contains(self._fault, httpx2.ConnectError)
        return SessionEnded(self._describe_end(self._fault), received=not (refused and alone))

    async def _run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                gone = asyncio.Event() if self._program is None else self._program.stdout_closed
                async with asyncio.timeout(self._connect_seconds):
                    client = await stack.enter_async_context(self._connect())
                self._client.set_result(client)
                await _wait_for_any(self._closing, gone)
                self.is_over = True
                if self._program is not None and self._program.output_error is not None:
                    self._fault = self._program.output_error
        except BaseException as error:
            self._fault = self._fault or error
            if not self._client.done():
                self._client.set_exception(ToolServerUnusable(self._name, self._describe_end(error)))
                self._client.exception()  # mark as retrieved: no task may be waiting
            if not isinstance(error, Exception):
                raise
        finally:
            self.is_over = True

    def _connect(self) -> AbstractAsyncContextManager[Client]:
        if self._program is None:
            return connect_http(self._config, self._limits, self._detect_unknown_session)
        return connect_stdio(self._program)

    async def _detect_unknown_session(self, response: httpx2.Response) -> None:
        """Detect status 404, which by the MCP specification means an unknown session: the request was not processed."""
        if (
            response.status_code == 404
            and response.request.method == "POST"
            and _SESSION_ID in response.request.headers
        ):
            self._is_unknown_to_server = True

    def _describe_end(self, error: BaseException | None) -> str:
        """Describe why the session ended, with the last line of the program's stderr."""
        why = " and ".join(self._describe(one) for one in _flatten(error)) if error is not None else _ENDED
        return f"{why}: {self._stderr.last_line}" if self._stderr.last_line else why

    def _describe(self, error: BaseException) -> str:
        match error:
            case TimeoutError():
                return f"it did not respond within {self._connect_seconds:g} s"
            case MCPError(code=code) if code == CONNECTION_CLOSED:
                return _ENDED
            case httpx2.ConnectError(__cause__=ForbiddenAddress() as cause):
                return str(cause)
            case httpx2.ConnectError():
                return "there is no connection to it"
            case _:
                return str(error) or type(error).__name__


async def _wait_for_any(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _flatten(error: BaseException) -> list[BaseException]:
    """Flatten nested exception groups."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    parts = cast("tuple[BaseException, ...]", error.exceptions)
    return [leaf for one in parts for leaf in _flatten(one)]


def _contains(error: BaseException, kind: type[BaseException]) -> bool:
    return any(isinstance(one, kind) for one in _flatten(error))
