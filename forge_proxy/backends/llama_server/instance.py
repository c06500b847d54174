"""One instance of a managed server: claims a port, starts the process and waits until the model is loaded."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from forge_proxy.backends.config import LlamaServerConfig
from forge_proxy.backends.http import HttpClient
from forge_proxy.backends.llama_server.launch import LaunchSpec, build_command, build_environment
from forge_proxy.backends.llama_server.loading import LoadFailed, wait_until_loaded
from forge_proxy.backends.llama_server.log_tail import LogTail
from forge_proxy.backends.llama_server.model_file import model_fault
from forge_proxy.backends.llama_server.process import NotExecutable, ServerProcess
from forge_proxy.backends.llama_server.status import LoadProgress
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.backend_errors import BackendDown, BackendFault
from forge_proxy.core.chat import ModelCard
from forge_proxy.engine.ports import Clock

_HOST = "127.0.0.1"
_PORTS_TRIED = 3
_NOTICED_WITHIN = 10.0
"""Seconds until the end of a process is detected after it has stopped listening."""


class CannotStart(BackendDown):
    """A managed server cannot be started; the message contains the reason and a remedy."""

    def __init__(self, spec: LaunchSpec, why: str) -> None:
        super().__init__(spec.program.kind, f"{spec.program.kind} with {spec.model} could not be started: {why}")
        self.why = why


@dataclass(eq=False)
class ServerInstance:
    """A server that is or was ready. `slots` is None if unknown; `ready_at` is in seconds of the daemon's clock."""

    process: ServerProcess
    server: OpenAICompatible
    spec: LaunchSpec
    slots: int | None
    models: Sequence[ModelCard]
    ready_at: float
    has_responded: bool = False
    """Whether it has sent a response, which resets the crash count."""
    is_stopping: bool = field(default=False)
    """Whether the daemon is stopping it."""

    async def is_over(self, *, silent: bool = False) -> bool:
        """Return whether the server has ended. Call it after a connection to it failed.

        A server that was `silent` for the silence limit and does not respond to a health check hangs: it is killed, and
        restarted as after a crash, because it would block every request.
        """
        if self.is_stopping:
            return True
        if (await self.server.health()).status == "down":  # it has stopped listening: its end will be detected soon
            with suppress(TimeoutError):
                async with asyncio.timeout(_NOTICED_WITHIN):
                    await self.process.wait()
            if silent and not self.process.has_ended and (await self.server.health()).status == "down":
                await self.process.kill("it stopped responding and was killed")
        return self.process.has_ended


def check(spec: LaunchSpec) -> None:
    """Raise `CannotStart` if the model file is missing or invalid. Blocks on disk access."""
    if fault := model_fault(spec.model):
        raise CannotStart(spec, fault)


async def start_instance(
    spec: LaunchSpec,
    config: LlamaServerConfig,
    http: HttpClient,
    clock: Clock,
    log: LogTail,
    on_progress: Callable[[int, LoadProgress | None], None],
) -> ServerInstance:
    """Start a server and wait until its model is loaded. Calls `on_progress` with its process id and progress.

    A cancellation ends the server. Raises `CannotStart`.
    """
    await asyncio.to_thread(check, spec)
    for left in reversed(range(_PORTS_TRIED)):
        try:
            port = claim_port(spec.port)
        except _NoPort as exc:
            raise CannotStart(spec, f"{exc}; stop what listens there, or set backend.llama_server.port") from exc
        try:
            return await _on_port(port, spec, config, http, clock, log, on_progress)
        except LoadFailed as exc:
            # Another program has bound the port since it was claimed.
            if left and spec.port == 0 and any("bind" in fault for fault in log.faults()):
                continue
            raise CannotStart(spec, str(exc)) from exc
        except NotExecutable as exc:
            raise CannotStart(spec, str(exc)) from exc
    raise AssertionError("the last attempt returns or raises")


async def _on_port(
    port: int,
    spec: LaunchSpec,
    config: LlamaServerConfig,
    http: HttpClient,
    clock: Clock,
    log: LogTail,
    on_progress: Callable[[int, LoadProgress | None], None],
) -> ServerInstance:
    """Start a server on a port. Raises `LoadFailed` or `NotExecutable`."""
    key = secrets.token_urlsafe(24)
    log.begin(f"--- {spec.program.kind} with {spec.model} is started, port {port}")
    process = await ServerProcess.start(build_command(spec, port), _environment(spec, key), log)
    try:
        on_progress(process.pid, None)
        server = OpenAICompatible(
            f"http://{_HOST}:{port}",
            http,
            api_key=key,
            health_path="/health",
            max_response=spec.max_response,
            kind=spec.program.kind,
        )
        await wait_until_loaded(
            process,
            server,
            log,
            config.load_silence_seconds,
            clock,
            lambda progress: on_progress(process.pid, progress),
        )
        slots, models = await _ask(server)
    except BaseException:
        await process.stop(config.stop_seconds)
        raise
    return ServerInstance(process, server, spec, spec.slots or slots, models, clock.now())


def _environment(spec: LaunchSpec, key: str) -> dict[str, str]:
    if spec.program.kind != "embedded":
        return build_environment(os.environ, key)
    # The child imports modules from the same paths; -P excludes the working directory, which may not be trusted.
    return {**build_environment(os.environ, key), "PYTHONPATH": os.pathsep.join(sys.path)}


async def _ask(server: OpenAICompatible) -> tuple[int | None, Sequence[ModelCard]]:
    """Request the number of slots and the models of a ready server."""
    slots, models = None, ()
    with suppress(BackendFault):
        slots = await server.slots()
    with suppress(BackendFault):
        models = await server.models()
    return slots, models


class _NoPort(Exception):
    """The port cannot be used, usually because another program listens on it."""


def claim_port(port: int) -> int:
    """Return the port, or a free one for 0. Another program may still bind it before the server. Raises `_NoPort`."""
    try:
        with socket.socket() as tried:
            # As servers do: closed connections of an earlier server do not block the port, listeners do.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((_HOST, port))
            return tried.getsockname()[1]
    except OSError as exc:
        raise _NoPort(f"port {port} on {_HOST}: {exc.strerror or exc}") from exc
