"""Starts and stops the daemon, in order: the socket, the backend, the application, the model."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

import structlog
import uvloop

from forge_proxy.api.admin.parts import AdminParts, BackendAbout
from forge_proxy.api.app import create_app
from forge_proxy.api.auth import Door
from forge_proxy.api.server import HttpServer, address, is_open_to_all, leads_to, listen
from forge_proxy.backends.choose import refuse_contradictions
from forge_proxy.backends.config import BackendChoiceError
from forge_proxy.backends.llama_server.programs import TINY_MODEL
from forge_proxy.core.errors import BackendFault, ForgeError
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.daemon.assembly import Assembled, MonotonicClock, assemble
from forge_proxy.daemon.runs import build_runs, resume
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.events import Event
from forge_proxy.engine.held import Held
from forge_proxy.engine.ports import Observer
from forge_proxy.reload import LiveSettings, Reloads
from forge_proxy.settings import Settings
from forge_proxy.telemetry import logs
from forge_proxy.telemetry.systemd import Systemd
from forge_proxy.workflows.runs.service import Runs

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(settings: Settings, listener: socket.socket, read: Callable[[], Settings]) -> None:
    """Run the daemon on a socket that listens already, until a signal ends it. `read` reads the settings again."""
    logs.configure(settings.log)
    log = structlog.get_logger()
    observe = _in_next_turn(logs.LogObserver())
    async with assemble(settings, observe) as parts, build_runs(settings, parts.engine, observe) as runs:
        choice = parts.choice
        if choice.url is not None and await leads_to(choice.url, listener):
            raise BackendChoiceError(
                f"backend.url {choice.url} is where this daemon itself listens; name the model server or another --port"
            )
        model_file = str(choice.gguf) if choice.gguf else None
        listed = {"models": list(settings.models)} if settings.models else {}
        log.info("backend", kind=choice.kind, url=choice.url, model_file=model_file, because=choice.because, **listed)
        if choice.gguf == TINY_MODEL:
            log.warning("test model", note="it understands a few phrases: for trying the daemon, not for work")
        door, guardrails = Door(settings.server), Held(settings.guardrails)
        live = LiveSettings(settings, read, guardrails, parts.engine, door)
        systemd = Systemd()
        reloads = Reloads(live, systemd)
        admin = _admin_parts(parts, guardrails, live, runs)
        app = create_app(parts.engine, parts.backend, guardrails, settings.server, admin, door)
        server = HttpServer(app, settings.server)

        def stop(signum: int) -> None:
            if not server.should_exit:
                systemd.stopping()
                log.info("stopping", answers_may_take=settings.server.drain_seconds, note="stop again to cut them off")
            runs.leave()  # who watches one is not waited for: it may go on for hours
            server.handle_exit(signum, None)

        for signum in STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(signum, stop, signum)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloads.request)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # those from before this wait since the start
        log.info("listening", url=address(*listener.getsockname()[:2]))
        if is_open_to_all(settings.server, listener):
            log.warning("no keys", note="anyone who reaches it may use it: server.allow_public_without_keys")
        systemd.ready(f"listening at {address(*listener.getsockname()[:2])}")
        watchdog = asyncio.create_task(_give_signs_of_life(systemd))
        resuming = asyncio.create_task(resume(runs, settings))
        try:
            await _run(server, listener, parts, self_test=settings.backend.self_test == "on-load")
        finally:
            watchdog.cancel()
            resuming.cancel()
            await reloads.close()
        log.info("stopped")


def _admin_parts(parts: Assembled, guardrails: Held[GuardPolicy], live: LiveSettings, runs: Runs) -> AdminParts:
    choice = parts.choice
    unmanaged = "" if parts.control else f"the {choice.kind} at {parts.backend.url} was started elsewhere"
    return AdminParts(
        parts.engine,
        parts.backend,
        BackendAbout(choice.kind, choice.because, unmanaged),
        guardrails,
        configuration=live,
        hardware=parts.machine,
        clock=MonotonicClock(),
        control=parts.control,
        runs=runs,
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


def _in_next_turn(observe: Observer) -> Observer:
    """Tell it what happened once the answer has left that it is about."""

    def later(event: Event, /) -> None:
        asyncio.get_running_loop().call_soon(observe, event)

    return later


async def _self_test(parts: Assembled) -> None:
    """Test the model that answers by default, and say what was found."""
    log = structlog.get_logger()
    try:
        name = await parts.engine.models.usual()
        card = await parts.engine.test(name)
    except ForgeError as error:
        log.warning("self-test", failed=error.summary)
    else:
        log.info("self-test", **card.as_json())


async def _tell_hardware(parts: Assembled) -> None:
    found = await parts.machine.profile()
    gpus = [f"{gpu.name}, {gpu.vram_mb or '?'} MiB" for gpu in found.gpus]
    structlog.get_logger().info("hardware", gpus=gpus, ram_mb=found.ram_mb, cores=found.cores, because=found.because)


async def _load(server: HttpServer, parts: Assembled, *, self_test: bool) -> None:
    """Load the model, and do what has to wait for it. Ends the server where that fails, and raises with what."""
    log = structlog.get_logger()
    try:
        await parts.load()
    except ForgeError:
        server.handle_exit(signal.SIGTERM, None)
        raise
    health = await parts.backend.health()
    if health.status != "ok":
        log.warning("backend does not answer yet", status=health.status, detail=health.detail)
        return
    log.info("ready")
    await _settle(parts.engine)
    if self_test:
        await _self_test(parts)


async def _run(server: HttpServer, listener: socket.socket, parts: Assembled, *, self_test: bool) -> None:
    """Answer while the model is being loaded: health says so, requests wait. Raises what loading fails with."""
    gc.collect()
    gc.set_threshold(20_000, 20, 20)  # a parsed request alone is thousands of objects, and none of them is in a cycle
    gc.freeze()  # what there is now stays: the collector need not look at it again
    telling = asyncio.create_task(_tell_hardware(parts))
    loading = asyncio.create_task(_load(server, parts, self_test=self_test))
    try:
        await server.serve(sockets=[listener])
    finally:
        telling.cancel()
        loading.cancel()
    with suppress(asyncio.CancelledError):
        await loading


def run(read: Callable[[], Settings]) -> None:
    """Run the daemon in this process, until a signal ends it. Raises as `read`, `listen` and `assemble`."""
    settings = read()
    refuse_contradictions(settings.backend, settings.models)  # before anything is taken or started
    listener = listen(settings.server)

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine runs in a task
        for signum in STOP_SIGNALS:  # while a backend is being looked for; `serve` then has its own way to stop
            asyncio.get_running_loop().add_signal_handler(signum, task.cancel)
        await serve(settings, listener, read)

    with listener, suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
