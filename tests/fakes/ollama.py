"""An Ollama with responses that a test sets by path, and chat responses that depend on the request."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from forge_proxy.backends.config import OllamaConfig
from forge_proxy.backends.http import RequestBody
from forge_proxy.backends.ollama import Ollama
from forge_proxy.engine.events import Event
from tests.fakes.literal import LiteralResponse
from tests.fakes.scripted import whole

JsonDict = dict[str, Any]
DONE: JsonDict = {"message": {"content": "hi"}, "done": True, "prompt_eval_count": 12, "eval_count": 1}


def says_hi(_: JsonDict) -> tuple[int, JsonDict]:
    return 200, DONE


@dataclass
class FakeOllama:
    """`HttpClient` of an Ollama that answers by path, and chats by their content. `asked` are the chats."""

    chat: Callable[[JsonDict], tuple[int, JsonDict]] = says_hi
    answers: dict[str, JsonDict] = field(default_factory=dict[str, JsonDict])
    asked: list[JsonDict] = field(default_factory=list[JsonDict])
    paths: list[str] = field(default_factory=list[str])
    heard: list[Event] = field(default_factory=list[Event])

    @asynccontextmanager
    async def open(
        self,
        method: str,
        url: str,
        *,
        body: RequestBody | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AsyncGenerator[LiteralResponse]:
        path = url.removeprefix("http://ollama")
        self.paths.append(path)
        status, said = 200, self.answers.get(path, {})
        if path == "/api/chat":
            self.asked.append(json.loads(whole(body)))
            status, said = self.chat(self.asked[-1])
        elif path == "/api/show":
            said = self.answers[f"show {json.loads(whole(body))['model']}"]
        yield LiteralResponse(status, {}, [json.dumps(said).encode()])

    def adapter(self, url: str = "http://ollama", **config: Any) -> Ollama:
        return Ollama(url, self, OllamaConfig(**config), self.heard.append)
