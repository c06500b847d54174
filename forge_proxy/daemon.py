"""The one place that knows every concrete class: builds them, starts them in order, stops them in the other order."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import structlog
import uvloop

from forge_proxy.api.admin.compaction import CompactionPolicy
from forge_proxy.api.admin.parts import AdminParts, BackendAbout
from forge_proxy.api.app import create_app
from forge_proxy.api.auth import Door
from forge_proxy.api.server import HttpServer, address, is_open_to_all, leads_to, listen
from forge_proxy.backends.choose import Choice, choose, refuse_contradictions
from forge_proxy.backends.config import BackendChoiceError
from forge_proxy.backends.http import AioHttp
from forge_proxy.backends.llama_server.embedded import TINY_MODEL, EmbeddedLlama
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.backends.sampling import read_recommendations
from forge_proxy.core.budget import Sizing
from forge_proxy.core.dialect import Dialect
from forge_proxy.core.errors import BackendFault, ForgeError
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.held import Held
from forge_proxy.engine.ports import Backend, Clock, Observer, ThoroughReader
from forge_proxy.engine.sampling import Sampling
from forge_proxy.engine.workshop import Workshop
from forge_proxy.hardware.machine import Machine
from forge_proxy.reload import LiveSettings, Reloads
from forge_proxy.settings import Settings
from forge_proxy.telemetry import logs
from forge_proxy.telemetry.systemd import Systemd

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class MonotonicClock:
    """`Clock` by the operating system."""

    def now(self) -> float:
        """See `engine.ports.Clock`."""
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class Assembled:
    """A backend and the engine over it, and why it is this backend. One of ours has still to be loaded."""

    choice: Choice
    backend: Backend
    engine: Engine
    machine: Machine
    embedded: EmbeddedLlama | None = None

    async def load(self) -> None:
        """Load the model, where that is ours to do. Raises `EmbeddedUnavailable`."""
        if self.embedded is not None:
            await self.embedded.start()


@asynccontextmanager
async def assemble(settings: Settings, observe: Observer) -> AsyncGenerator[Assembled]:
    """Choose a backend, build the engine over it, and stop both at the end. Raises `BackendChoiceError`."""
    config = settings.backend
    http = AioHttp(connect_seconds=config.connect_seconds, silence_seconds=config.silence_seconds)
    workshop = Workshop()
    machine = Machine()
    embedded: EmbeddedLlama | None = None
    try:
        choice = await choose(config, http)
        backend: Backend
        if choice.gguf is not None:
            backend = embedded = EmbeddedLlama(choice.gguf, config.embedded, http)
        else:
            key = config.api_key.get_secret_value() if config.api_key else None
            health = "/health" if choice.kind == "llama-server" else None
            backend = OpenAICompatible(choice.url or "", http, api_key=key, health_path=health)
        clock: Clock = MonotonicClock()
        thorough: ThoroughReader = workshop
        admission = Admission(backend, clock, observe, slots=config.slots, limit=config.queue_limit)
        # A llama-server takes no object as tool_choice: it becomes auto, with no more than a line in its own log.
        llama = choice.kind in ("llama-server", "embedded")
        dialect = Dialect(reasoning=config.reasoning, choice_in_words=llama, llama_cpp=llama)
        # Ollama's OpenAI-compatible route takes no window with a request, and cuts what is too long without a word.
        sizing = Sizing(truncates=choice.kind == "ollama")
        budgets = Budgets(backend, clock, observe, settings.budget, sizing, hardware=machine)
        sampling = Sampling(observe, read_recommendations(), settings.sampling)
        engine = Engine(backend, clock, observe, config.model, thorough, admission, dialect, budgets, sampling)
        yield Assembled(choice, backend, engine, machine, embedded)
    finally:
        await machine.close()
        await workshop.close()
        if embedded is not None:
            await embedded.stop()
        await http.close()


async def serve(settings: Settings, listener: socket.socket, read: Callable[[], Settings]) -> None:
    """Run the daemon on a socket that listens already, until a signal ends it. `read` reads the settings again."""
    logs.configure(settings.log)
    log = structlog.get_logger()
    async with assemble(settings, logs.LogObserver()) as parts:
        choice = parts.choice
        if choice.url is not None and await leads_to(choice.url, listener):
            raise BackendChoiceError(
                f"backend.url {choice.url} is where this daemon itself listens; name the model server or another --port"
            )
        model_file = str(choice.gguf) if choice.gguf else None
        log.info("backend", kind=choice.kind, url=choice.url, model_file=model_file, because=choice.because)
        if choice.gguf == TINY_MODEL:
            log.warning("test model", note="it understands a few phrases: for trying the daemon, not for work")
        door, guardrails = Door(settings.server), Held(settings.guardrails)
        live = LiveSettings(settings, read, guardrails, parts.engine, door)
        systemd = Systemd()
        reloads = Reloads(live, systemd)
        admin = _admin_parts(parts, guardrails, live)
        app = create_app(parts.engine, parts.backend, guardrails, settings.server, admin, door)
        server = HttpServer(app, settings.server)

        def stop(signum: int) -> None:
            if not server.should_exit:
                systemd.stopping()
                log.info("stopping", answers_may_take=settings.server.drain_seconds, note="stop again to cut them off")
            server.handle_exit(signum, None)

        for signum in STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(signum, stop, signum)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloads.request)
        log.info("listening", url=address(*listener.getsockname()[:2]))
        if is_open_to_all(settings.server, listener):
            log.warning("no keys", note="anyone who reaches it may use it: server.allow_public_without_keys")
        systemd.ready(f"listening at {address(*listener.getsockname()[:2])}")
        watchdog = asyncio.create_task(_give_signs_of_life(systemd))
        try:
            await _run(server, listener, parts)
        finally:
            watchdog.cancel()
            await reloads.close()
        log.info("stopped")


def _admin_parts(parts: Assembled, guardrails: Held[GuardPolicy], live: LiveSettings) -> AdminParts:
    choice = parts.choice
    unmanaged = (
        "the embedded llama.cpp is started and stopped with the daemon"
        if choice.kind == "embedded"
        else f"the {choice.kind} at {parts.backend.url} was started elsewhere"
    )
    return AdminParts(
        parts.engine,
        parts.backend,
        BackendAbout(choice.kind, choice.because, unmanaged),
        guardrails,
        Held(CompactionPolicy()),
        configuration=live,
        hardware=parts.machine,
        clock=MonotonicClock(),
    )


async def _give_signs_of_life(systemd: Systemd) -> None:
    """As long as the event loop turns, which is what a watchdog is to find out."""
    while systemd.watchdog_seconds is not None:
        systemd.alive()
        await asyncio.sleep(systemd.watchdog_seconds)


async def _settle(engine: Engine) -> None:
    """Find out the budget, which is logged with its reason, and give the model server the window for it."""
    try:
        await engine.budgets.settle()
    except BackendFault as fault:
        structlog.get_logger().warning("the budget could not be had", error=fault.summary)


async def _run(server: HttpServer, listener: socket.socket, parts: Assembled) -> None:
    """Answer while the model is being loaded: health says so, requests wait. Raises what loading fails with."""

    log = structlog.get_logger()

    async def tell_hardware() -> None:
        found = await parts.machine.profile()
        gpus = [f"{gpu.name}, {gpu.vram_mb or '?'} MiB" for gpu in found.gpus]
        log.info("hardware", gpus=gpus, ram_mb=found.ram_mb, cores=found.cores, because=found.because)

    async def load() -> None:
        try:
            await parts.load()
        except ForgeError:
            server.handle_exit(signal.SIGTERM, None)
            raise
        health = await parts.backend.health()
        if health.status == "ok":
            log.info("ready")
            await _settle(parts.engine)
        else:
            log.warning("backend does not answer yet", status=health.status, detail=health.detail)

    gc.collect()
    gc.freeze()  # what there is now stays: the collector need not look at it again
    telling, loading = asyncio.create_task(tell_hardware()), asyncio.create_task(load())
    await server.serve(sockets=[listener])
    telling.cancel()
    loading.cancel()
    with suppress(asyncio.CancelledError):
        await loading


def run(read: Callable[[], Settings]) -> None:
    """Run the daemon in this process, until a signal ends it. Raises as `read`, `listen` and `assemble`."""
    settings = read()
    refuse_contradictions(settings.backend)  # before anything is taken or started
    listener = listen(settings.server)

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine runs in a task
        for signum in STOP_SIGNALS:  # while a backend is being looked for; `serve` then has its own way to stop
            asyncio.get_running_loop().add_signal_handler(signum, task.cancel)
        await serve(settings, listener, read)

    with listener, suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
