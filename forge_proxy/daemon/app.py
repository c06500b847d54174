"""The complete daemon over a listening socket, as its own process or embedded in a program."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from forge_proxy.api.admin.services import AdminServices, BackendSelection
from forge_proxy.api.app import create_app
from forge_proxy.api.auth import KeyRing
from forge_proxy.api.server import HttpServer, address, is_open_to_all, leads_to
from forge_proxy.backends.config import BackendChoiceError
from forge_proxy.backends.llama_server.programs import TINY_MODEL
from forge_proxy.backends.selection import SelectedBackend
from forge_proxy.core.backend_errors import BackendFault
from forge_proxy.core.errors import ForgeError
from forge_proxy.daemon.container import EngineAssembly, MonotonicClock, assemble
from forge_proxy.daemon.database import build_response_storage, shared_database
from forge_proxy.daemon.jobs import JobServices, build_jobs, resume, store_url
from forge_proxy.daemon.metrics import build_metrics
from forge_proxy.daemon.reload import LiveSettings
from forge_proxy.daemon.requests import StoredRequests, store_requests
from forge_proxy.daemon.traces import combine_observers, export_traces
from forge_proxy.engine.active_requests import ActiveRequests
from forge_proxy.engine.events import Event
from forge_proxy.engine.memory import MemoryBudget, memory_limit
from forge_proxy.engine.ports import ContentObserver, Observer
from forge_proxy.hardware.files import find_ram_mb
from forge_proxy.settings import Settings
from forge_proxy.telemetry import logs
from forge_proxy.telemetry.content_encoder import ContentEncoder
from forge_proxy.telemetry.event_feed import EventFeed
from forge_proxy.telemetry.fan_out import EventFanOut
from forge_proxy.telemetry.metrics import DaemonMetrics

if TYPE_CHECKING:  # the extra `otel`
    from forge_proxy.telemetry.traces import TraceWriter


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that is fully built; `run` makes it answer requests."""

    parts: EngineAssembly
    server: HttpServer
    live: LiveSettings
    services: JobServices
    events: EventFeed
    listener: socket.socket
    log: FilteringBoundLogger

    @property
    def url(self) -> str:
        """The base URL, with `/v1`."""
        return address(*self.listener.getsockname()[:2])

    def log_address(self) -> None:
        """Log the address that it listens on."""
        self.log.info("listening", url=self.url)
        if is_open_to_all(self.live.now.server, self.listener):
            note = "anyone who can reach the daemon can use it: server.allow_public_without_keys"
            self.log.warning("no API keys", note=note, former_event="no keys")  # `former_event`: until 0.3

    def end(self, signum: int) -> None:
        """Make `run` return once running responses have finished, or immediately at a second interrupt."""
        self.services.jobs.end_feeds()  # shutdown does not wait for clients that watch a run: it may last for hours
        self.events.close()
        self.parts.engine.active.close()
        self.server.handle_exit(signum, None)

    async def run(self, loaded: Callable[[], None] = lambda: None, *, resumes: bool = True) -> None:
        """Answer requests until `end` is called. While the model loads, requests wait and health reports it.

        Calls `loaded` once the model is loaded. Raises the error if loading fails. With `resumes`, unfinished runs of
        an earlier daemon are resumed.
        """
        background = [asyncio.create_task(self._log_hardware())]
        if resumes:
            background.append(asyncio.create_task(resume(self.services.jobs, self.live.now, self.log)))
        loading = asyncio.create_task(self._load(loaded))
        try:
            await self.server.serve(sockets=[self.listener])
        finally:
            for task in (*background, loading):
                task.cancel()
        with suppress(asyncio.CancelledError):
            await loading

    async def _load(self, loaded: Callable[[], None]) -> None:
        """Load the model, then do what depends on it. If loading fails, stop the server and raise the error."""
        try:
            await self.parts.load()
        except ForgeError:
            self.end(signal.SIGTERM)
            raise
        health = await self.parts.backend.health()
        if health.status == "ok":
            self.log.info("ready")
            await self._settle_budget()
        else:
            former = {"former_event": "backend does not answer yet"}  # until 0.3
            self.log.warning("backend not ready", status=health.status, detail=health.detail, **former)
        loaded()
        if health.status == "ok":
            await self._learn_template()
        if health.status == "ok" and self.live.now.backend.self_test == "on-load":
            await self._self_test()

    async def _settle_budget(self) -> None:
        """Resolve the context budget, which is logged with its reason, and resize the model server's window to it."""
        try:
            await self.parts.engine.budgets.settle()
        except BackendFault as fault:
            self.log.warning("could not determine the context budget", error=fault.summary)

    async def _learn_template(self) -> None:
        """Learn the chat template of the default model, so that its first request does not wait for it."""
        engine = self.parts.engine
        if engine.policies.guardrails.enabled.rescue:
            with suppress(ForgeError):  # a request reports it
                await engine.forms.learn(await engine.models.default_name())

    async def _self_test(self) -> None:
        """Test the default model and log the result."""
        engine = self.parts.engine
        try:
            card = await engine.test(await engine.models.default_name())
        except ForgeError as error:
            self.log.warning("self-test failed", error=error.summary, former_event="self-test", failed=error.summary)
        else:
            self.log.info("self-test", **card.as_json(), because=card.reason)  # `because`: until 0.3

    async def _log_hardware(self) -> None:
        found = await self.parts.machine.profile()
        gpus = [f"{gpu.name}, {gpu.vram_mb or '?'} MiB" for gpu in found.gpus]
        reason = {"reason": found.reason, "because": found.reason}  # `because`: until 0.3
        self.log.info("hardware", gpus=gpus, ram_mb=found.ram_mb, cores=found.cores, **reason)


@asynccontextmanager
async def build(
    settings: Settings, listener: socket.socket, read: Callable[[], Settings], log: FilteringBoundLogger
) -> AsyncGenerator[Daemon]:
    """Build the daemon over a listening socket. `read` reloads the settings. Raises `BackendChoiceError`."""
    active = ActiveRequests()
    events = EventFeed(describe_origin=active.describe_origin)
    listeners = EventFanOut([logs.LogObserver(log), events])
    observe = observe_in_next_iteration(listeners)
    memory = MemoryBudget(memory_limit(settings.server.memory_mb, find_ram_mb(Path("/"))))
    contents = ContentEncoder(log) if settings.store.content == "on" else None
    async with (
        export_traces(settings, listeners) as traces,
        assemble(
            settings,
            observe,
            memory,
            combine_observers(_content_observers(settings, contents, traces)),
            active,
            traces,
        ) as parts,
        shared_database(store_url(settings), is_shared=settings.jobs.scheduler == "temporal") as database,
        build_jobs(
            settings, parts.engine, observe, database, responses := build_response_storage(settings, database), memory
        ) as services,
        store_requests(settings, database, parts.engine.models, listeners, log, contents) as stored,
    ):
        url = parts.choice.url
        if url is not None and await leads_to(url, listener):
            raise BackendChoiceError(
                f"backend.url {parts.choice.public_url} is this daemon itself; set it to the model server, or choose "
                "another --port"
            )
        log_backend(parts.choice, settings, log)
        if traces is not None:
            traces.set_backend(parts.choice.kind, parts.backend.url)
        keys = KeyRing(settings.server)
        live = LiveSettings(settings, read, parts.engine, keys)
        metrics = build_metrics(parts)
        listeners.add(metrics)
        if contents is not None:
            contents.set_counter(metrics.count_content)
        admin = _admin_services(parts, live, services, memory, metrics, stored, events)
        app = create_app(
            parts.engine,
            parts.backend,
            settings.server,
            admin,
            keys,
            memory,
            responses=responses,
            files=services.batch_parts.files,
            background=services.background,
            batches=services.batches,
            lines=services.batch_parts.executor,
        )
        yield Daemon(parts, HttpServer(app, settings.server, memory), live, services, events, listener, log)


def _content_observers(
    settings: Settings, contents: ContentEncoder | None, traces: TraceWriter | None
) -> list[ContentObserver]:
    observers: list[ContentObserver] = [contents] if contents is not None else []
    if traces is not None and settings.telemetry.traces.content == "on":
        observers.append(traces.observe_content)
    return observers


def log_backend(choice: SelectedBackend, settings: Settings, log: FilteringBoundLogger) -> None:
    """Log the backend that is used, and why."""
    model_file = str(choice.gguf) if choice.gguf else None
    listed = {"models": list(settings.models)} if settings.models else {}
    reason = {"reason": choice.reason, "because": choice.reason}  # `because`: until 0.3
    log.info("backend", kind=choice.kind, url=choice.public_url, model_file=model_file, **reason, **listed)
    if choice.gguf == TINY_MODEL:
        log.warning("test model", note="understands only a few phrases: for trying out the daemon, not for real work")


def _admin_services(
    parts: EngineAssembly,
    live: LiveSettings,
    services: JobServices,
    memory: MemoryBudget,
    metrics: DaemonMetrics,
    stored: StoredRequests | None,
    events: EventFeed,
) -> AdminServices:
    choice = parts.choice
    unmanaged = "" if parts.control else f"the {choice.kind} at {parts.backend.url} was started elsewhere"
    return AdminServices(
        parts.engine,
        parts.backend,
        BackendSelection(choice.kind, choice.reason, unmanaged),
        configuration=live,
        hardware=parts.machine,
        clock=MonotonicClock(),
        memory=memory,
        control=parts.control,
        runs=services.runs,
        jobs=services.jobs,
        tasks=services.tasks,
        tiers=live.now.tiers,
        metrics=metrics,
        stored=stored,
        events=events,
    )


def observe_in_next_iteration(observe: Observer) -> Observer:
    """Wrap an observer so that it runs in the next event loop iteration, after the response has been sent."""

    def later(event: Event, /) -> None:
        asyncio.get_running_loop().call_soon(observe, event)

    return later
