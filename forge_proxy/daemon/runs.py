"""Builds what runs need: a store that is opened when it is needed, and what executes their tools."""

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

from forge_proxy.api.validation_errors import wrong_field
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
_WAYS = ("http", "mcp")
_AGAIN_AFTER = 2.0
"""Seconds after which a store is tried again that another daemon has: one that is being stopped, perhaps."""
_WAITS = (2.0, 5.0, 15.0, 60.0)
"""The same of one that cannot be used: its database comes up later than we do, or never. The last again and again."""
_LONGEST_SILENCE = 3600.0
"""Seconds. Of a tool; each has its own bound below that."""


@asynccontextmanager
async def build_runs(settings: Settings, engine: Engine, observe: Observer) -> AsyncGenerator[Runs]:
    """The runs of a daemon, which are stopped where they are in the end."""
    url = _url(settings)

    async def open_store() -> RunStore:
        # SQLAlchemy and Alembic take most of a second to load, which neither the start nor a request shall wait for.
        opening = await asyncio.to_thread(import_module, "forge_proxy.store.database")
        return await opening.open_store(url)

    def stranded(run_id: str, error: Exception) -> None:
        if isinstance(error, ForgeError):
            observe(RunNotResumable(run_id, error.summary))
        else:
            observe(RunNotResumable(run_id, "an error inside forge-proxy", error))

    async with AsyncExitStack() as closing:
        http = AioHttp(
            connect_seconds=settings.backend.connect_seconds,
            silence_seconds=_LONGEST_SILENCE,
            resolver=CheckedResolver(settings.tools.callbacks.allow),
        )
        closing.push_async_callback(http.close)
        toolbox = await closing.enter_async_context(ToolExecutors(settings.tools, http, SystemClock(), observe))
        means = ExecutionDeps(engine, LocalTools(ToolServers(toolbox)), stranded)
        runs = Runs(open_store, means, settings.runs.max_running, time.time, lambda run: observe(_moved(run)))
        closing.push_async_callback(runs.close)
        yield runs


async def resume(runs: Runs, settings: Settings, log: FilteringBoundLogger) -> None:
    """Go on with what an earlier daemon left unfinished, where there is a store; wait for one that cannot be used yet.

    Otherwise the store is opened by the first request that needs it.
    """
    file = sqlite_file(_url(settings))
    if file is not None and not await asyncio.to_thread(file.exists):
        return None
    told, waits = "", chain(_WAITS, repeat(_WAITS[-1]))
    while True:
        try:
            return await runs.resume()
        except StoreUnavailable as error:
            if error.summary != told:
                told = error.summary
                log.warning("no runs", error=told, note="it is tried again until it can be used")
            seconds = _AGAIN_AFTER if isinstance(error, StoreInUse) else next(waits)
        await asyncio.sleep(seconds)


def _url(settings: Settings) -> str:
    return settings.store.url_in(state_folder(os.environ))


def _moved(run: StoredRun) -> RunStatusChanged:
    outcome = read_outcome(run.outcome) if run.outcome is not None else None
    return RunStatusChanged(run.id, run.status, outcome.type if isinstance(outcome, RunError) else None)


class ToolServers:
    """`workflows.runs.ports.Toolbox` of HTTP callbacks and MCP servers."""

    def __init__(self, toolbox: ToolExecutors) -> None:
        self._toolbox = toolbox

    async def declare(self, tool: ToolDeclaration, at: str) -> ToolSpec:
        """See the port."""
        if tool.execute.get("by") not in _WAYS:
            raise InvalidRequest(f"{at}.execute.by", f"expected one of {', '.join((*OWN, *_WAYS))}")
        try:
            how = _EXECUTION.validate_python(dict(tool.execute))
        except ValidationError as exc:
            wrong = wrong_field(exc.errors(), dict(tool.execute))
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
