"""The one place that knows every concrete class: builds them, starts them in order, stops them in the other order."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

import structlog
import uvicorn
import uvloop
from fastapi import FastAPI

from forge_proxy.api.app import create_app
from forge_proxy.backends.choose import Choice, choose
from forge_proxy.backends.config import BackendChoiceError
from forge_proxy.backends.http import AioHttp
from forge_proxy.backends.llama_server.embedded import TINY_MODEL, EmbeddedLlama
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.errors import ForgeError
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.ports import Backend, Clock, Observer
from forge_proxy.settings import Settings
from forge_proxy.telemetry import logs

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
        if choice.url is not None and await _leads_to(choice.url, listener):
            raise BackendChoiceError(
                f"backend.url {choice.url} is where this daemon itself listens; name the model server or another --port"
            )
        model_file = str(choice.gguf) if choice.gguf else None
        log.info("backend", kind=choice.kind, url=choice.url, model_file=model_file, because=choice.because)
        if choice.gguf == TINY_MODEL:
            log.warning("test model", note="it understands a few phrases: for trying the daemon, not for work")
        app = create_app(parts.engine, parts.backend, settings.guardrails, settings.server)
        server = HttpServer(app, settings.server.drain_seconds)
        for signum in STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(signum, server.handle_exit, signum, None)
        log.info("listening", url=address(*listener.getsockname()[:2]))
        await server.serve(sockets=[listener])
        log.info("stopped")


def address(host: str, port: int) -> str:
    """The base URL that a client is given."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


async def _leads_to(url: str, listener: socket.socket) -> bool:
    """Whether `url` is the listener's own: a request would then make another one, and that one another."""
    parts = urlsplit(url)
    host, port = listener.getsockname()[:2]
    if (parts.port or (443 if parts.scheme == "https" else 80)) != port:
        return False
    try:
        found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    own, meant = ip_address(host), [ip_address(to[0]) for *_, to in found]
    return own in meant or (own.is_unspecified and any(one.is_loopback for one in meant))


class HttpServer(uvicorn.Server):
    """The HTTP server around an application. When told to stop it accepts no more, then waits for what is under way."""

    def __init__(self, app: FastAPI, drain_seconds: int) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                timeout_graceful_shutdown=drain_seconds,
            )
        )

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are the daemon's: uvicorn would raise them again at its end, before the backend is stopped."""
        yield


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
    """Run the daemon in this process, until a signal ends it. Raises `CannotListen` or what `assemble` raises."""
    listener = listen(settings.server.host, settings.server.port)

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine runs in a task
        for signum in STOP_SIGNALS:  # while the model is still being loaded; `serve` then has its own way to stop
            asyncio.get_running_loop().add_signal_handler(signum, task.cancel)
        await serve(settings, listener)

    with listener, suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
