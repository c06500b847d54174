"""A scripted model server: literal bytes through the real adapter and application."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.http import RequestBody
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.requests.content import AttemptContent, RequestContent
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.events import Event
from forge_proxy.engine.ports import TemplateLearner
from tests.fakes.says import Said

JsonDict = dict[str, Any]


def whole(body: RequestBody | None) -> bytes:
    """A request body in one piece."""
    return body if isinstance(body, bytes) else b"".join(body or ())


@dataclass
class ScriptedHttp:
    """`HttpClient` that answers each chat completion with the next response of a script, cut into pieces of `cut`
    bytes.
    """

    script: Sequence[Said | Exception]
    cut: int = 1_000_000
    asked: list[JsonDict] = field(default_factory=list)
    """The bodies of the chat completions that were requested."""
    window: int | None = None
    """The context window in the model list."""
    model: Callable[[JsonDict], Said] | None = None
    """Returns the response to a request, in place of the script."""
    served: Sequence[str] = ("scripted",)
    """The names in the model list."""

    @asynccontextmanager
    async def open(
        self,
        method: str,
        url: str,
        *,
        body: RequestBody | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AsyncGenerator[ScriptedResponse]:
        if method == "GET":
            window = {"max_model_len": self.window} if self.window else {}
            listed = {"data": [{"id": name, **window} for name in self.served]}
            yield ScriptedResponse(200, json.dumps(listed).encode(), "application/json", self.cut)
            return
        asked = json.loads(whole(body) or b"{}")
        self.asked.append(asked)
        said = self.model(asked) if self.model else self.script[len(self.asked) - 1]
        if isinstance(said, Exception):
            raise said
        if said.status != 200:
            yield ScriptedResponse(said.status, json.dumps(said.body).encode(), "application/json", self.cut)
        elif asked.get("stream"):
            yield ScriptedResponse(200, said.as_stream(), "text/event-stream", self.cut)
        else:
            yield ScriptedResponse(200, said.as_whole(), "application/json", self.cut)


@dataclass
class ScriptedResponse:
    """`HttpResponse` of known bytes."""

    status: int
    data: bytes
    content_type: str
    cut: int

    @property
    def headers(self) -> Mapping[str, str]:
        return {"content-type": self.content_type}

    async def pieces(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self.data), self.cut):
            yield self.data[at : at + self.cut]

    async def read(self) -> bytes:
        return self.data

    async def finish(self) -> None:
        return


class StillClock:
    """A clock that stands still."""

    def now(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Answer:
    """What a client received, streamed or whole. Calls as (name, parsed arguments)."""

    status: int
    text: str | None
    calls: list[tuple[str, Any]]
    finish: str | None
    reasoning: str | None
    outcome: str | None
    attempts: int | None
    asked: list[JsonDict]
    error: JsonDict | None = None
    usage: JsonDict | None = None
    tokens: int | None = None
    """Tokens of all attempts."""
    marks: str | None = None
    """The interventions in the response."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)


async def chat(
    script: Sequence[Said | Exception] | Callable[[JsonDict], Said],
    body: JsonDict,
    *,
    stream: bool = False,
    cut: int = 1_000_000,
    policy: GuardPolicy | None = None,
    headers: Mapping[str, str] | None = None,
    heard: list[Event] | None = None,
    contents: list[AttemptContent | RequestContent] | None = None,
    window: int | None = None,
    templates: TemplateLearner | None = None,
) -> Answer:
    """Send one request through the whole application to a scripted backend, and read the response as a client would."""
    model = script if callable(script) else None
    http = ScriptedHttp(() if callable(script) else script, cut, window=window, model=model)
    backend = OpenAICompatible("http://scripted", http)
    observe = (heard if heard is not None else []).append
    guardrails = policy or GuardPolicy()
    engine = Engine(
        EngineConfig(
            backend, StillClock(), observe, guardrails=guardrails, templates=templates,
            observe_content=contents.append if contents is not None else None,
        )
    )  # fmt: skip
    app = create_app(engine, backend, ServerConfig())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        response = await client.post(
            "/v1/chat/completions", json={**body, "stream": stream}, headers=dict(headers or {})
        )
    if response.status_code != 200:
        return Answer(response.status_code, None, [], None, None, None, None, http.asked, response.json()["error"])
    if stream:
        return replace(_read_stream(response.text, http.asked), headers=response.headers)
    choice = response.json()["choices"][0]
    message = choice["message"]
    calls = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in message.get("tool_calls") or []]
    return Answer(
        200,
        message.get("content"),
        calls,
        choice["finish_reason"],
        message.get("reasoning_content"),
        response.headers["x-forge-outcome"],
        int(response.headers["x-forge-attempts"]),
        http.asked,
        usage=response.json().get("usage"),
        tokens=int(response.headers.get("x-forge-tokens-spent", "0")) or None,
        marks=response.headers.get("x-forge-interventions"),
    )


def _read_stream(text: str, asked: list[JsonDict]) -> Answer:
    content: list[str] = []
    reasoning: list[str] = []
    calls: dict[int, tuple[str, str]] = {}
    finish: str | None = None
    told: dict[str, str] = {}
    usage: JsonDict | None = None
    for line in text.splitlines():
        if line.startswith(": "):
            pairs, _, interventions = line[2:].partition(" x-forge-interventions=")
            told.update(dict(pair.split("=", 1) for pair in pairs.split()))
            told.update(
                {"x-forge-interventions": interventions.partition(" x-forge-marks=")[0]} if interventions else {}
            )
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        chunk = json.loads(line[6:])
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            delta = choice.get("delta") or {}
            content += [delta["content"]] if delta.get("content") is not None else []
            reasoning += [delta["reasoning_content"]] if delta.get("reasoning_content") is not None else []
            for call in delta.get("tool_calls") or []:
                name, arguments = calls.get(call["index"], ("", ""))
                function = call["function"]
                calls[call["index"]] = (name + function.get("name", ""), arguments + function.get("arguments", ""))
            finish = choice.get("finish_reason") or finish
    assert text.endswith("data: [DONE]\n\n")
    return Answer(
        200,
        "".join(content) if content else None,
        [(name, json.loads(arguments)) for name, arguments in (calls[index] for index in sorted(calls))],
        finish,
        "".join(reasoning) if reasoning else None,
        told.get("x-forge-outcome", "passthrough"),
        int(told.get("x-forge-attempts", "1")),
        asked,
        usage=usage,
        tokens=int(told.get("x-forge-tokens-spent", "0")) or None,
        marks=told.get("x-forge-interventions"),
    )
