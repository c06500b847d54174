"""The daemon as a process: signals, the service manager, and the event loop."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from pathlib import Path

import structlog
import uvloop
from structlog.typing import FilteringBoundLogger

from forge_proxy.api.config import ServerConfig
from forge_proxy.api.connections import raise_descriptor_limit
from forge_proxy.api.server import PortTaken, listen
from forge_proxy.backends.capability_cache import state_folder
from forge_proxy.daemon.allocator import map_large_buffers
from forge_proxy.daemon.app import build
from forge_proxy.daemon.port_owner import find_daemon, stop_command
from forge_proxy.daemon.reload import SettingsReloader
from forge_proxy.settings import Settings
from forge_proxy.settings.startup_checks import refuse_unusable
from forge_proxy.telemetry import logs
from forge_proxy.telemetry.hangup import Hangup, signal_closed_terminal
from forge_proxy.telemetry.running_daemons import list_running_daemons, register_daemon
from forge_proxy.telemetry.systemd import Systemd

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(
    settings: Settings,
    listener: socket.socket,
    read: Callable[[], Settings],
    hangup: Hangup = "reload",
    file: Path | None = None,
) -> None:
    """Run the daemon until a signal ends it. `hangup` is the action of SIGHUP; `file` is the file that `read` loads.

    Raises like `build`, before anything is logged.
    """
    log: FilteringBoundLogger = structlog.get_logger()
    async with build(settings, listener, read, log) as daemon:
        log.info("settings", file=str(file) if file else None)
        systemd = Systemd()
        reloads = SettingsReloader(daemon.live, systemd)

        def stop(signum: int) -> None:
            if not daemon.server.should_exit:
                systemd.notify_stopping()
                seconds = settings.server.drain_seconds
                drain = {"drain_seconds": seconds, "answers_may_take": seconds}  # `answers_may_take`: until 0.3
                log.info("stopping", **drain, note="stop again to abort running requests")
            daemon.end(signum)

        _handle_signals(stop, reloads.request, hangup)
        daemon.log_address()
        systemd.notify_ready(f"listening at {daemon.url}")
        watchdog = asyncio.create_task(_ping_watchdog(systemd))
        _tune_garbage_collector()
        try:
            await daemon.run()
        finally:
            watchdog.cancel()
            await reloads.close()
        log.info("stopped")


def _handle_signals(stop: Callable[[int], None], reload: Callable[[], None], hangup: Hangup) -> None:
    loop = asyncio.get_running_loop()
    for signum in STOP_SIGNALS:
        loop.add_signal_handler(signum, stop, signum)
    if hangup == "reload":
        loop.add_signal_handler(signal.SIGHUP, reload)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # delivers signals blocked since the start
    elif hangup == "stop":
        loop.add_signal_handler(signal.SIGHUP, stop, signal.SIGTERM)


def _tune_garbage_collector() -> None:
    gc.collect()
    gc.set_threshold(20_000, 20, 20)  # a parsed request has thousands of objects, none of them in a cycle
    gc.freeze()  # existing objects are permanent: exclude them from collection


async def _ping_watchdog(systemd: Systemd) -> None:
    """Ping the watchdog from the event loop, so that a blocked loop triggers it."""
    while systemd.watchdog_seconds is not None:
        systemd.ping_watchdog()
        await asyncio.sleep(systemd.watchdog_seconds)


def run(read: Callable[[], Settings], hangup: Hangup = "reload", file: Path | None = None) -> None:
    """Run the daemon in this process until a signal ends it. `file` is the file that `read` loads, for the log.

    Raises like `read`, `refuse_unusable`, `open_listener` and `assemble`.
    """
    settings = read()
    refuse_unusable(settings)  # before the port is bound or a process started
    state = state_folder()
    raise_descriptor_limit()
    map_large_buffers()
    listener = open_listener(settings.server, state)

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine runs in a task
        # Until the backend is selected; `serve` then installs its own handlers.
        for signum in (*STOP_SIGNALS, *([signal.SIGHUP] if hangup == "stop" else [])):
            asyncio.get_running_loop().add_signal_handler(signum, task.cancel)
        watch = signal_closed_terminal() if hangup == "stop" else nullcontext()
        with register_daemon(state, listener.getsockname()[1]), watch:
            await serve(settings, listener, read, hangup, file)

    with closing(logs.configure(settings.log)), listener, suppress(asyncio.CancelledError):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())
        signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # closing the loop restores Python's handler, which prints a traceback


def open_listener(server: ServerConfig, state: Path) -> socket.socket:
    """Call `listen`; if the port is in use, the error reports whether a forge-proxy uses it."""
    try:
        return listen(server)
    except PortTaken as error:
        running = list_running_daemons(state)
        found = find_daemon(server.host, server.port, running)
        raise PortTaken(server.host, server.port, found, stop_command(server.port, running)) from error
