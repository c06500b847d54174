"""Every adapter behind the port `Backend`, before a model server whose bytes a test writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from _pytest.mark import ParameterSet

from forge_proxy.backends.config import BackendConfig, OllamaConfig
from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.backends.llama_server.managed import ManagedLlama
from forge_proxy.backends.llama_server.manager import ServerManager
from forge_proxy.backends.llama_server.programs import TINY_MODEL, find_embedded, launch_spec
from forge_proxy.backends.ollama import Ollama
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.chat import ChatRequest, ModelCall
from forge_proxy.core.stream import Chunk, Completion, CompletionBuilder
from forge_proxy.engine.ports import Backend
from tests.contracts.messages_recordings import MESSAGES_RECORDINGS
from tests.contracts.ollama_recordings import OLLAMA_RECORDINGS
from tests.contracts.recordings import RECORDINGS, Recording
from tests.fakes.literal import EVENTS, JSON, LiteralHttp, LiteralTransport
from tests.fakes.scripted import StillClock


@dataclass
class Adapter:
    """An adapter that runs, the HTTP it speaks, and the loop it lives in."""

    backend: Backend
    http: LiteralHttp | LiteralTransport
    runner: asyncio.Runner

    def chunks(self, sent: list[bytes], *, stream: bool, verbatim: bool = False) -> list[Chunk]:
        """Return the chunks of a stream, or of a whole response, that arrives in these pieces."""
        self.http.says(sent, EVENTS if stream else JSON)
        return self.answer(stream=stream, verbatim=verbatim)

    def answer(self, *, stream: bool, verbatim: bool = False) -> list[Chunk]:
        """Return its response to one request, the current one of `http`."""

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
    """Its server is a real process; only the requests go to a scripted one."""
    http, config = LiteralHttp(), BackendConfig()
    spec = launch_spec(config, find_embedded(), TINY_MODEL)
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


@contextmanager
def ollama() -> Generator[Adapter]:
    http = LiteralHttp()
    with asyncio.Runner() as runner:
        backend = Ollama("http://model", http, OllamaConfig(), lambda _: None)
        yield Adapter(backend, http, runner)


@contextmanager
def anthropic_messages() -> Generator[Adapter]:
    """The adapter uses the real SDK."""
    from forge_proxy.backends.anthropic import AnthropicMessages  # slow import, over a second

    transport = LiteralTransport()
    with asyncio.Runner() as runner:
        http = httpx2.AsyncClient(transport=transport)
        backend = AnthropicMessages("http://model", api_key="k", connect_seconds=5, silence_seconds=5, http=http)
        yield Adapter(backend, transport, runner)
        runner.run(backend.close())


@dataclass(frozen=True)
class Dialect:
    """An adapter, and what the servers that it is for send. `relays` is whether it passes on what they sent."""

    run: Callable[[], AbstractContextManager[Adapter]]
    recordings: tuple[Recording, ...]
    models: dict[str, Any] | None = None
    """A list of a model "one" with a window of 2048 tokens, of one "two" and of something without a name."""
    relays: bool = False
    streams_events: bool = True
    """Whether its stream is server-sent events, else lines of JSON."""
    starts_process: bool = False

    @property
    def lists_models(self) -> bool:
        return self.models is not None

    def as_case(self, *values: object, name: str = "") -> ParameterSet:
        """A case of a test, with the tier of the adapter."""
        marks = [pytest.mark.process] if self.starts_process else []
        return pytest.param(self, *values, id=f"{self.run.__name__}-{name}" if name else self.run.__name__, marks=marks)

    def event(self, data: bytes) -> bytes:
        """Encode data as one event of the adapter's stream."""
        return b"data: " + data + b"\n\n" if self.streams_events else data + b"\n"


_OPENAI = {"object": "list", "data": [{"id": "one", "meta": {"n_ctx": 2048}}, {"id": "two"}, {"name": "no id"}]}
_ANTHROPIC = {"data": [{"id": "one", "max_input_tokens": 2048}, {"id": "two"}, {"name": "no id"}], "has_more": False}

ADAPTERS = (
    Dialect(openai_compatible, RECORDINGS, _OPENAI, relays=True),
    Dialect(managed, RECORDINGS, _OPENAI, relays=True, starts_process=True),
    Dialect(ollama, OLLAMA_RECORDINGS, streams_events=False),
    Dialect(anthropic_messages, MESSAGES_RECORDINGS, _ANTHROPIC),
)
ADAPTER_CASES = [dialect.as_case() for dialect in ADAPTERS]
