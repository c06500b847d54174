"""The one place that knows every concrete class: builds them, starts them in order, stops them in the other order."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
import uvloop

from forge_proxy.api.app import create_app
from forge_proxy.api.server import HttpServer, address, is_open_to_all, leads_to, listen
from forge_proxy.backends.cards import CardFile, state_folder
from forge_proxy.backends.choose import Choice, choose, refuse_contradictions
from forge_proxy.backends.config import BackendChoiceError, BackendConfig
from forge_proxy.backends.http import AioHttp
from forge_proxy.backends.llama_server.managed import ManagedLlama
from forge_proxy.backends.llama_server.manager import ServerManager
from forge_proxy.backends.llama_server.programs import TINY_MODEL
from forge_proxy.backends.ollama import Ollama
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.dialect import Dialect
from forge_proxy.core.errors import ForgeError
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.events import Event
from forge_proxy.engine.ports import Backend, Clock, Observer, ThoroughReader
from forge_proxy.engine.switching import Switching
from forge_proxy.engine.workshop import Workshop
from forge_proxy.settings import Settings
from forge_proxy.telemetry import logs

if TYPE_CHECKING:
    from forge_proxy.backends.anthropic import AnthropicMessages

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
    admission: Admission
    manager: ServerManager | None = None
    switching: Switching | None = None
    """Exchanges the server while requests come and go; there where the server is ours."""

    async def load(self) -> None:
        """Load the model, where that is ours to do; requests wait in line. Raises `CannotStart`."""
        if self.manager is not None:
            async with self.admission.paused():
                await self.manager.start()


@asynccontextmanager
async def assemble(settings: Settings, observe: Observer) -> AsyncGenerator[Assembled]:
    """Choose a backend, build the engine over it, and stop both at the end. Raises `BackendChoiceError`."""
    config = settings.backend
    http = AioHttp(connect_seconds=config.connect_seconds, silence_seconds=config.silence_seconds)
    workshop = Workshop()
    clock: Clock = MonotonicClock()
    manager: ServerManager | None = None
    messages: AnthropicMessages | None = None
    try:
        choice = await choose(config, http)
        backend: Backend
        key = config.api_key.get_secret_value() if config.api_key else None
        if choice.launch is not None:
            manager = ServerManager(choice.launch, config.llama_server, http, clock, observe)
            backend = ManagedLlama(manager)
        elif choice.kind == "anthropic":
            backend = messages = _messages_api(choice, config)
        elif choice.kind == "ollama":
            backend = Ollama(choice.url or "", http, config.ollama, observe, api_key=key)
        else:
            health = "/health" if choice.kind == "llama-server" else None
            backend = OpenAICompatible(choice.url or "", http, api_key=key, health_path=health)
        thorough: ThoroughReader = workshop
        admission = Admission(backend, clock, observe, slots=config.slots, limit=config.queue_limit)
        # A llama-server takes no object as tool_choice: it becomes auto, with no more than a line in its own log.
        llama = choice.launch is not None or choice.kind == "llama-server"
        dialect = Dialect(config.reasoning, config.tools, choice_in_words=llama, llama_cpp=llama)
        cards = CardFile(state_folder(os.environ), choice.url or f"managed {choice.gguf}")
        engine = Engine(backend, clock, observe, config.model, thorough, admission, dialect, cards)
        switching = Switching(admission, engine.models) if manager else None
        yield Assembled(choice, backend, engine, admission, manager, switching)
    finally:
        await workshop.close()
        if messages is not None:
            await messages.close()
        if manager is not None:
            await manager.close()
        await http.close()


def _messages_api(choice: Choice, config: BackendConfig) -> AnthropicMessages:
    from forge_proxy.backends.anthropic import AnthropicMessages  # more than a second, which only its users shall wait

    return AnthropicMessages(
        choice.url or "",
        api_key=config.api_key.get_secret_value() if config.api_key else "",
        connect_seconds=config.connect_seconds,
        silence_seconds=config.silence_seconds,
    )


async def serve(settings: Settings, listener: socket.socket) -> None:
    """Run the daemon on a socket that listens already, until a signal ends it."""
    logs.configure(settings.log)
    log = structlog.get_logger()
    async with assemble(settings, _in_next_turn(logs.LogObserver())) as parts:
        choice = parts.choice
        if choice.url is not None and await leads_to(choice.url, listener):
            raise BackendChoiceError(
                f"backend.url {choice.url} is where this daemon itself listens; name the model server or another --port"
            )
        model_file = str(choice.gguf) if choice.gguf else None
        log.info("backend", kind=choice.kind, url=choice.url, model_file=model_file, because=choice.because)
        if choice.gguf == TINY_MODEL:
            log.warning("test model", note="it understands a few phrases: for trying the daemon, not for work")
        app = create_app(parts.engine, parts.backend, settings.guardrails, settings.server)
        server = HttpServer(app, settings.server)

        def stop(signum: int) -> None:
            if not server.should_exit:
                log.info("stopping", answers_may_take=settings.server.drain_seconds, note="stop again to cut them off")
            server.handle_exit(signum, None)

        for signum in STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(signum, stop, signum)
        log.info("listening", url=address(*listener.getsockname()[:2]))
        if is_open_to_all(settings.server, listener):
            log.warning("no keys", note="anyone who reaches it may use it: server.allow_public_without_keys")
        await _run(server, listener, parts, self_test=settings.backend.self_test == "on-load")
        log.info("stopped")


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
        card = await parts.engine.capabilities.test(name)
    except ForgeError as error:
        log.warning("self-test", failed=error.summary)
    else:
        log.info("self-test", **card.as_json())


async def _run(server: HttpServer, listener: socket.socket, parts: Assembled, *, self_test: bool = False) -> None:
    """Answer while the model is being loaded: health says so, requests wait. Raises what loading fails with."""

    async def load() -> None:
        try:
            await parts.load()
        except ForgeError:
            server.handle_exit(signal.SIGTERM, None)
            raise
        health = await parts.backend.health()
        log = structlog.get_logger()
        if health.status == "ok":
            log.info("ready")
            if self_test:
                await _self_test(parts)
        else:
            log.warning("backend does not answer yet", status=health.status, detail=health.detail)

    gc.collect()
    gc.set_threshold(20_000, 20, 20)  # a parsed request alone is thousands of objects, and none of them is in a cycle
    gc.freeze()  # what there is now stays: the collector need not look at it again
    loading = asyncio.create_task(load())
    await server.serve(sockets=[listener])
    loading.cancel()
    with suppress(asyncio.CancelledError):
        await loading


def run(settings: Settings) -> None:
    """Run the daemon in this process, until a signal ends it. Raises as `listen` and `assemble`."""
    refuse_contradictions(settings.backend)  # before anything is taken or started
    listener = listen(settings.server)

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine runs in a task
        for signum in STOP_SIGNALS:  # while a backend is being looked for; `serve` then has its own way to stop
            asyncio.get_running_loop().add_signal_handler(signum, task.cancel)
        await serve(settings, listener)

    with listener, suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
