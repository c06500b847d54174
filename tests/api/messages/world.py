"""The Messages API before a scripted model server: in the process, and on a real port for the real SDK."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx
from anthropic.types import Message
from fastapi import FastAPI

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.api.server import HttpServer, listen
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.budget import BudgetPolicy
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.ports import Backend
from tests.fakes.message_events import assemble, check_fields, read_events
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, ScriptedHttp, StillClock

MESSAGES = "/v1/messages"
USER: JsonDict = {"role": "user", "content": "What is the weather in Paris?"}
PLAIN: JsonDict = {"model": "claude-x", "max_tokens": 100, "messages": [USER]}
WEATHER: JsonDict = {
    "name": "get_weather",
    "description": "The weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
GUARDED: JsonDict = {**PLAIN, "tools": [WEATHER]}
PARIS = '{"city": "Paris"}'
Script = Sequence[Said | Exception] | Callable[[JsonDict], Said]


@dataclass
class Answer:
    """What a client received."""

    response: httpx.Response
    asked: list[JsonDict]
    """The bodies that the model server received."""

    @property
    def status(self) -> int:
        return self.response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        return self.response.headers

    @property
    def events(self) -> list[JsonDict]:
        """The events of a stream, each valid by the SDK's own types."""
        return read_events(self.response.text)

    @property
    def message(self) -> JsonDict:
        """The message: whole, or as the events of a stream make it."""
        if self.headers["content-type"].startswith("text/event-stream"):
            return assemble(self.events)
        message = self.response.json()
        check_fields(Message.model_validate(message))
        return message


def scripted_app(
    http: ScriptedHttp, policy: GuardPolicy | None = None, budget: BudgetPolicy | None = None, **server: Any
) -> FastAPI:
    """The application before this model server."""
    return app_of(OpenAICompatible("http://scripted", http), policy, budget, **server)


def app_of(
    backend: Backend, policy: GuardPolicy | None = None, budget: BudgetPolicy | None = None, **server: Any
) -> FastAPI:
    """Return the application in front of this backend."""
    clock = StillClock()
    budgets = Budgets(backend, clock, [].append, budget or BudgetPolicy())
    config = EngineConfig(backend, clock, [].append, guardrails=policy or GuardPolicy(), budgets=budgets)
    return create_app(Engine(config), backend, ServerConfig(**server))


async def post(
    app: FastAPI, body: Any, path: str = MESSAGES, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """The response of the application."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await client.post(path, content=content, headers=dict(headers or {}))


async def send(
    script: Script,
    body: JsonDict,
    *,
    stream: bool = False,
    cut: int = 1_000_000,
    path: str = MESSAGES,
    headers: Mapping[str, str] | None = None,
    policy: GuardPolicy | None = None,
    window: int | None = None,
    **server: Any,
) -> Answer:
    """Send one request to the application before a scripted model server."""
    http = ScriptedHttp(
        () if callable(script) else script, cut, window=window, model=script if callable(script) else None
    )
    app = scripted_app(http, policy, **server)
    return Answer(await post(app, {**body, "stream": stream} if stream else body, path, headers), http.asked)


@dataclass
class Served:
    """The application on a real port, and a client of the real SDK."""

    url: str
    http: ScriptedHttp
    client: anthropic.Anthropic


@contextmanager
def served(script: Script, **server: Any) -> Generator[Served]:
    """Serve the application before a scripted model server with the daemon's own HTTP server."""
    http = ScriptedHttp(() if callable(script) else script, model=script if callable(script) else None)
    config = ServerConfig(port=0, **server)
    listener = listen(config)
    http_server = HttpServer(scripted_app(http, port=0, **server), config)
    thread = threading.Thread(target=lambda: asyncio.run(http_server.serve([listener])), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with anthropic.Anthropic(base_url=url, auth_token="none", api_key=None, max_retries=0, timeout=30) as client:
            yield Served(url, http, client)
    finally:
        http_server.should_exit = True
        thread.join(timeout=30)
