"""Builds the run service: a store that is opened on first use, and the tool executors."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from itertools import chain, repeat

from pydantic import TypeAdapter, ValidationError
from structlog.typing import FilteringBoundLogger

from forge_proxy.api.validation_errors import to_invalid_request
from forge_proxy.backends.capability_cache import state_folder
from forge_proxy.backends.http import AioHttp
from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.errors import ForgeError, InvalidRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.events import RunNotResumable, RunStatusChanged
from forge_proxy.engine.ports import Observer
from forge_proxy.settings import Settings
from forge_proxy.store.config import sqlite_file
from forge_proxy.tools.config import ByHttp, ByMcp, Execution
from forge_proxy.tools.errors import ToolServerUnusable
from forge_proxy.tools.executors import ToolExecutors
from forge_proxy.tools.ports import SystemClock
from forge_proxy.tools.resolver import CheckedResolver
from forge_proxy.workflows.runs.errors import StoreInUse, StoreUnavailable, ToolUnusable
from forge_proxy.workflows.runs.execution import ExecutionDeps
from forge_proxy.workflows.runs.local_tools import OWN, LocalTools, parameters_of
from forge_proxy.workflows.runs.ports import RunStore, ToolDeclaration
from forge_proxy.workflows.runs.records import StoredRun
from forge_proxy.workflows.runs.serialization import RunError, read_outcome
from forge_proxy.workflows.runs.service import Runs
from forge_proxy.workflows.tools import Executor

_EXECUTION: TypeAdapter[ByHttp | ByMcp] = TypeAdapter(Execution)
_KINDS = ("http", "mcp")
_LOCKED_RETRY_SECONDS = 2.0
"""Seconds between attempts to open a store that another daemon has locked; that daemon may be shutting down."""
_RETRY_SECONDS = (2.0, 5.0, 15.0, 60.0)
"""Seconds between attempts to open an unavailable store, whose database may start later. The last value repeats."""
_MAX_SILENCE_SECONDS = 3600.0
"""Seconds. Upper limit for all tools; each tool has its own timeout below it."""


@asynccontextmanager
async def build_runs(settings: Settings, engine: Engine, observe: Observer) -> AsyncGenerator[Runs]:
    """Build the run service of a daemon. At the end, runs stop at their current step."""
    url = _url(settings)

    async def open_store() -> RunStore:
        # In a thread: importing SQLAlchemy and Alembic takes most of a second.
        database = await asyncio.to_thread(import_module, "forge_proxy.store.database")
        return await database.open_store(url)

    def report_stranded(run_id: str, error: Exception) -> None:
        if isinstance(error, ForgeError):
            observe(RunNotResumable(run_id, error.summary))
        else:
            observe(RunNotResumable(run_id, "internal error in forge-proxy", error))

    async with AsyncExitStack() as closing:
        http = AioHttp(
            connect_seconds=settings.backend.connect_seconds,
            silence_seconds=_MAX_SILENCE_SECONDS,
            resolver=CheckedResolver(settings.tools.callbacks.allow),
        )
        closing.push_async_callback(http.close)
        executors = await closing.enter_async_context(ToolExecutors(settings.tools, http, SystemClock(), observe))
        deps = ExecutionDeps(engine, LocalTools(ToolServers(executors)), report_stranded)
        runs = Runs(open_store, deps, settings.runs.max_running, time.time, lambda run: observe(_status_event(run)))
        closing.push_async_callback(runs.close)
        yield runs


async def resume(runs: Runs, settings: Settings, log: FilteringBoundLogger) -> None:
    """Resume the unfinished runs of an earlier daemon. If the store is unavailable, keep trying to open it.

    Does nothing if the SQLite file does not exist; the first request that needs the store creates it.
    """
    file = sqlite_file(_url(settings))
    if file is not None and not await asyncio.to_thread(file.exists):
        return None
    reported, waits = "", chain(_RETRY_SECONDS, repeat(_RETRY_SECONDS[-1]))
    while True:
        try:
            return await runs.resume()
        except StoreUnavailable as error:
            if error.summary != reported:
                reported = error.summary
                log.warning("no runs", error=reported, note="retried until the store is available")
            seconds = _LOCKED_RETRY_SECONDS if isinstance(error, StoreInUse) else next(waits)
        await asyncio.sleep(seconds)


def _url(settings: Settings) -> str:
    return settings.store.url_in(state_folder(os.environ))


def _status_event(run: StoredRun) -> RunStatusChanged:
    outcome = read_outcome(run.outcome) if run.outcome is not None else None
    return RunStatusChanged(run.id, run.status, outcome.type if isinstance(outcome, RunError) else None)


class ToolServers:
    """`workflows.runs.ports.Toolbox` of HTTP callbacks and MCP servers."""

    def __init__(self, toolbox: ToolExecutors) -> None:
        self._toolbox = toolbox

    async def declare(self, tool: ToolDeclaration, at: str) -> ToolSpec:
        """See the port."""
        if tool.execute.get("by") not in _KINDS:
            raise InvalidRequest(f"{at}.execute.by", f"expected one of {', '.join((*OWN, *_KINDS))}")
        try:
            how = _EXECUTION.validate_python(dict(tool.execute))
        except ValidationError as exc:
            wrong = to_invalid_request(exc.errors(), dict(tool.execute))
            raise InvalidRequest(f"{at}.execute.{wrong.at}", wrong.why) from exc
        parameters = parameters_of(tool, at) if isinstance(how, ByHttp) else tool.parameters
        try:
            return await self._toolbox.declare(at, tool.name, how, tool.description, parameters)
        except ToolServerUnusable as error:
            raise ToolUnusable(str(error)) from error

    def executor(self, executes: Mapping[str, JsonObject], run_id: str) -> Executor:
        """See the port."""
        return self._toolbox.executor(
            {name: _EXECUTION.validate_python(dict(execute)) for name, execute in executes.items()}, run_id
        )
