"""The daemon as a process: signals, the service manager, and the event loop."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

import structlog
import uvloop
from structlog.typing import FilteringBoundLogger

from forge_proxy.api.connections import raise_descriptor_limit
from forge_proxy.api.server import listen
from forge_proxy.backends.choose import refuse_contradictions
from forge_proxy.daemon.whole import build
from forge_proxy.reload import Reloads
from forge_proxy.settings import Settings
from forge_proxy.telemetry import logs
from forge_proxy.telemetry.systemd import Systemd

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(settings: Settings, listener: socket.socket, read: Callable[[], Settings]) -> None:
    """Run the daemon as this process, until a signal ends it. Raises as `build`."""
    logs.configure(settings.log)
    log: FilteringBoundLogger = structlog.get_logger()
    async with build(settings, listener, read, log) as daemon:
        systemd = Systemd()
        reloads = Reloads(daemon.live, systemd)

        def stop(signum: int) -> None:
            if not daemon.server.should_exit:
                systemd.stopping()
                log.info("stopping", answers_may_take=settings.server.drain_seconds, note="stop again to cut them off")
            daemon.end(signum)

        for signum in STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(signum, stop, signum)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloads.request)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # those from before this wait since the start
        daemon.tell_address()
        systemd.ready(f"listening at {daemon.url}")
        watchdog = asyncio.create_task(_give_signs_of_life(systemd))
        _spare_the_collector()
        try:
            await daemon.run()
        finally:
            watchdog.cancel()
            await reloads.close()
        log.info("stopped")


def _spare_the_collector() -> None:
    gc.collect()
    gc.set_threshold(20_000, 20, 20)  # a parsed request alone is thousands of objects, and none of them is in a cycle
    gc.freeze()  # what there is now stays: the collector need not look at it again


async def _give_signs_of_life(systemd: Systemd) -> None:
    """As long as the event loop turns, which is what a watchdog is to find out."""
    while systemd.watchdog_seconds is not None:
        systemd.alive()
        await asyncio.sleep(systemd.watchdog_seconds)


def run(read: Callable[[], Settings]) -> None:
    """Run the daemon in this process, until a signal ends it. Raises as `read`, `listen` and `assemble`."""
    settings = read()
    refuse_contradictions(settings.backend, settings.models)  # before anything is taken or started
    raise_descriptor_limit()
    listener = listen(settings.server)

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine runs in a task
        for signum in STOP_SIGNALS:  # while a backend is being looked for; `serve` then has its own way to stop
            asyncio.get_running_loop().add_signal_handler(signum, task.cancel)
        await serve(settings, listener, read)

    with listener, suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
