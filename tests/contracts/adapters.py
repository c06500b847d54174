"""Every adapter behind the port `Backend`, before a model server whose bytes a test writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from forge_proxy.backends.config import BackendConfig
from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.backends.llama_server.managed import ManagedLlama
from forge_proxy.backends.llama_server.manager import ServerManager
from forge_proxy.backends.llama_server.programs import TINY_MODEL, embedded, launch_spec
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.chat import ChatRequest, ModelCall
from forge_proxy.core.stream import Chunk, Completion, CompletionBuilder
from forge_proxy.engine.ports import Backend
from tests.fakes.literal import EVENTS, JSON, LiteralHttp
from tests.fakes.scripted import StillClock


@dataclass
class Adapter:
    """An adapter that runs, the HTTP it speaks, and the loop it lives in."""

    backend: Backend
    http: LiteralHttp
    runner: asyncio.Runner

    def chunks(self, sent: list[bytes], *, stream: bool, verbatim: bool = False) -> list[Chunk]:
        """What it makes of a stream, or of a whole answer, that comes in these pieces."""
        self.http.says(sent, EVENTS if stream else JSON)
        return self.answer(stream=stream, verbatim=verbatim)

    def answer(self, *, stream: bool, verbatim: bool = False) -> list[Chunk]:
        """Its answer to one request: what `http` says now."""

        async def taken() -> list[Chunk]:
            return [chunk async for chunk in self.backend.stream(self.call(stream=stream, verbatim=verbatim))]

        return self.runner.run(taken())

    def call(self, *, stream: bool, verbatim: bool = False) -> ModelCall:
        """A request for that."""
        return ModelCall(ChatRequest({"messages": []}, stream=stream), stream=stream, verbatim=verbatim)


def put_together(chunks: list[Chunk]) -> Completion:
    builder = CompletionBuilder()
    for chunk in chunks:
        builder.add(chunk)
    return builder.completion()


@contextmanager
def openai_compatible() -> Generator[Adapter]:
    http = LiteralHttp()
    with asyncio.Runner() as runner:
        yield Adapter(OpenAICompatible("http://model", http, health_path="/health"), http, runner)


@contextmanager
def managed() -> Generator[Adapter]:
    """Its server is a real process; only what would be said to it goes elsewhere."""
    http, config = LiteralHttp(), BackendConfig()
    spec = launch_spec(config, embedded(), TINY_MODEL)
    with asyncio.Runner() as runner:
        manager = runner.run(started(spec, config, http))
        try:
            yield Adapter(ManagedLlama(manager), http, runner)
        finally:
            runner.run(manager.close())


async def started(spec: LaunchSpec, config: BackendConfig, http: LiteralHttp) -> ServerManager:
    manager = ServerManager(spec, config.llama_server, http, StillClock(), lambda _: None)
    await manager.start()
    return manager


ADAPTERS: tuple[Callable[[], AbstractContextManager[Adapter]], ...] = (openai_compatible, managed)
