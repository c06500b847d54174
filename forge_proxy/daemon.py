"""The one place that knows every concrete class: builds them, starts them in order, stops them in the other order."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
import uvicorn
from fastapi import FastAPI

from forge_proxy.api.app import create_app
from forge_proxy.backends.choose import Choice, choose
from forge_proxy.backends.http import AioHttp
from forge_proxy.backends.llama_server.embedded import EmbeddedLlama
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.errors import ForgeError
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.ports import Backend, Clock, Observer
from forge_proxy.settings import Settings
from forge_proxy.telemetry import logs


class CannotListen(ForgeError):
    """The address to listen on cannot be had."""


class MonotonicClock:
    """`Clock` by the operating system."""

    def now(self) -> float:
        """See `engine.ports.Clock`."""
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class Assembled:
    """A backend that runs, the engine over it, and why it is this backend."""

    choice: Choice
    backend: Backend
    engine: Engine


@asynccontextmanager
async def assemble(settings: Settings, observe: Observer) -> AsyncGenerator[Assembled]:
    """Choose and start a backend, and stop it at the end. Raises `BackendChoiceError` or `EmbeddedUnavailable`."""
    config = settings.backend
    http = AioHttp(connect_seconds=config.connect_seconds, silence_seconds=config.silence_seconds)
    embedded: EmbeddedLlama | None = None
    try:
        choice = await choose(config, http)
        backend: Backend
        if choice.gguf is not None:
            backend = embedded = EmbeddedLlama(choice.gguf, config.embedded, http)
            await embedded.start()
        else:
            key = config.api_key.get_secret_value() if config.api_key else None
            health = "/health" if choice.kind == "llama-server" else None
            backend = OpenAICompatible(choice.url or "", http, api_key=key, health_path=health)
        clock: Clock = MonotonicClock()
        yield Assembled(choice, backend, Engine(backend, clock, observe, config.model))
    finally:
        if embedded is not None:
            await embedded.stop()
        await http.close()


async def serve(settings: Settings, listener: socket.socket) -> None:
    """Run the daemon on a socket that listens already, until a signal ends it."""
    logs.configure(settings.log)
    log = structlog.get_logger()
    async with assemble(settings, logs.LogObserver()) as parts:
        choice = parts.choice
        log.info(
            "backend",
            kind=choice.kind,
            url=choice.url,
            model_file=str(choice.gguf) if choice.gguf else None,
            because=choice.because,
        )
        host, port = listener.getsockname()[:2]
        log.info("listening", url=f"http://{host}:{port}/v1")
        app = create_app(parts.engine, parts.backend, settings.guardrails, settings.server)
        await server_for(app, settings).serve(sockets=[listener])
        log.info("stopped")


def server_for(app: FastAPI, settings: Settings) -> uvicorn.Server:
    """The HTTP server around an application. On a signal it stops accepting, then waits for the answers under way."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=settings.server.drain_seconds,
        )
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, taken before anything else is started. Raises `CannotListen`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as exc:
        listener.close()
        if exc.errno == errno.EADDRINUSE:
            raise CannotListen(
                f"port {port} on {host} is taken; stop what listens there or choose another with --port"
            ) from exc
        raise CannotListen(f"cannot listen on {host}:{port}: {exc.strerror or exc}") from exc
    listener.setblocking(False)
    return listener


def run(settings: Settings) -> None:
    """Run the daemon in this process. Raises `CannotListen` or what `assemble` raises."""
    listener = listen(settings.server.host, settings.server.port)
    try:
        asyncio.run(serve(settings, listener))
    finally:
        listener.close()
