"""The exchanges of Ollama's API and of the relayed routes, with an OpenAI-compatible server and with an Ollama."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.says import Said
from tests.transcripts.exchange import Exchange
from tests.transcripts.replies import PLAIN, SEQUENCES, openai_replies
from tests.transcripts.server import JSON, LINES, Reply

JsonDict = dict[str, Any]
CHAT, GENERATE = "/api/chat", "/api/generate"
_TOOLS: list[JsonDict] = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather of the next days.",
        "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    }},
    {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}},
]  # fmt: skip
_USER: JsonDict = {"role": "user", "content": "What is the weather in Paris?"}
_PLAIN: JsonDict = {"model": "scripted", "messages": [_USER]}
_GUARDED: JsonDict = {**_PLAIN, "tools": _TOOLS}
_HISTORY: list[JsonDict] = [
    {"role": "system", "content": "Be short."},
    _USER,
    {"role": "assistant", "thinking": "Two calls.", "tool_calls": [
        {"function": {"name": "get_weather", "arguments": {"city": "Paris"}}},
        {"function": {"name": "get_time", "arguments": {}}},
    ]},
    {"role": "tool", "tool_name": "get_time", "content": "noon"},
    {"role": "tool", "tool_name": "get_weather", "content": "sunny"},
    {"role": "user", "content": "And this?", "images": ["iVBORw0KGgo="]},
]  # fmt: skip
_OPTIONS: JsonDict = {
    "num_ctx": 8192,
    "num_predict": 50,
    "temperature": 0.1,
    "top_k": 3,
    "mirostat": 1,
    "stop": ["END"],
}
_CHATS: dict[str, tuple[str, JsonDict]] = {
    "a history": ("respond", {**_GUARDED, "messages": _HISTORY}),
    "options": ("plain text", {**_PLAIN, "options": _OPTIONS, "keep_alive": "5m", "think": False, "seed": 7}),
    "a schema": ("plain text", {**_PLAIN, "format": {"type": "object"}, "think": "low"}),
    **{f"{said}, without tools": (said, _PLAIN) for said in ("reasoning and text", "native call", "cut text", "429")},
    **{said: (said, _GUARDED) for said in SEQUENCES},
}
_WRONG: dict[str, tuple[str, Any]] = {
    "no JSON": (CHAT, b"{"),
    "an unknown role": (CHAT, {"messages": [{"role": "usr", "content": "hi"}]}),
    "a wrong option": (CHAT, {**_PLAIN, "options": {"temperature": "hot"}}),
    "an unknown format": (CHAT, {**_PLAIN, "format": "xml"}),
    "a suffix": (GENERATE, {"prompt": "def f(", "suffix": "return 1"}),
    "no such route": ("/api/nowhere", {}),
    "nothing to embed": ("/api/embed", {"model": "scripted"}),
    "no model to show": ("/api/show", {}),
    "a model to pull": ("/api/pull", {"model": "llama3"}),
}
_EMBEDDED = Reply(b'{"data": [{"embedding": [1.0, 2.5]}], "usage": {"prompt_tokens": 3, "total_tokens": 3}}')


def _sequence(name: str) -> tuple[Said, ...]:
    """The model's responses. One that fails is retried by the daemon, since no client of this API does it."""
    return SEQUENCES[name] * (3 if name == "500" else 1)


def ollama_exchanges() -> list[Exchange]:
    """All exchanges of the API with an OpenAI-compatible server, in order."""
    made = [
        Exchange(f"{name}, {form}", openai_replies(_sequence(said), stream=stream or "tools" in body),
                 {**body, **({} if stream else {"stream": False})}, path=CHAT)
        for name, (said, body) in _CHATS.items()
        for stream, form in ((False, "whole"), (True, "streamed"))
    ]  # fmt: skip
    generated = [
        Exchange(f"a prompt, {form}", openai_replies((PLAIN,), stream=stream),
                 {"model": "scripted", "prompt": "Weather?", "system": "Be short.", "stream": stream}, path=GENERATE)
        for stream, form in ((False, "whole"), (True, "streamed"))
    ]  # fmt: skip
    others = [
        Exchange("a model to load", body={"model": "scripted"}, path=CHAT),
        Exchange("a model to unload", body={"model": "scripted", "keep_alive": 0, "stream": False}, path=GENERATE),
        *(Exchange(f"GET {path}", method="GET", path=path) for path in ("/api/version", "/api/tags", "/api/ps")),
        Exchange("a model to show", body={"model": "scripted"}, path="/api/show"),
        Exchange(
            "a text to embed", (_EMBEDDED,), {"model": "scripted", "input": "a", "truncate": True}, path="/api/embed"
        ),
        Exchange("one text to embed", (_EMBEDDED,), {"model": "scripted", "prompt": "a"}, path="/api/embeddings"),
    ]
    wrong = [Exchange(name, body=body, path=path) for name, (path, body) in _WRONG.items()]
    return [*made, *generated, *others, *wrong]


def ollama_backend_exchanges() -> list[Exchange]:
    """What an Ollama receives from a client that speaks its API."""
    line = {
        "model": "scripted",
        "created_at": "2026-11-21T19:33:57Z",
        "message": {"role": "assistant", "content": "Hi."},
    }
    counts = {"done": True, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 2, "eval_duration": 5}
    chat = Reply(json.dumps({**line, **counts}).encode() + b"\n", LINES)
    progress = Reply(b'{"status":"pulling manifest"}\n{"status":"success"}\n', LINES)
    fields: JsonDict = {**_PLAIN, "options": _OPTIONS, "keep_alive": "5m", "think": "low", "format": {"type": "object"}}
    generated = Reply(b'{"response":"return 1","done":true}', JSON)
    embedded, completed = Reply(b'{"embeddings":[[1]]}'), Reply(b'{"choices":[]}')
    unknown = Reply(b'{"error":"model \'x\' not found"}', status=404)
    no_route = Reply(b"404 page not found", "text/plain", 404)
    return [
        Exchange("its own fields", (chat,), fields, path=CHAT),
        Exchange("a suffix", (generated,), {"model": "scripted", "prompt": "def f(", "suffix": "}"}, path=GENERATE),
        Exchange("embeddings", (embedded,), {"model": "scripted", "input": "a"}, path="/api/embed"),
        Exchange("a model to pull", (progress,), {"model": "llama3"}, path="/api/pull"),
        Exchange("an unknown model", (unknown,), {"model": "x"}, path="/api/create"),
        Exchange("completions", (completed,), {"model": "scripted", "prompt": "a"}, path="/v1/completions"),
        Exchange("no such route", (no_route,), {"query": "a"}, path="/v1/rerank"),
    ]


def relay_exchanges() -> list[Exchange]:
    """The relayed routes."""
    completion = {"model": "scripted", "prompt": "a"}
    error = b'{"error":{"code":400,"message":"too long","type":"exceed_context_size_error","n_ctx":4}}'
    stream = Reply(b'data: {"choices":[{"text":"a"}]}\n\ndata: [DONE]\n\n', "text/event-stream")
    return [
        Exchange("a completion", (Reply(b'{ "choices": [] }'),), completion, path="/v1/completions"),
        Exchange("a streamed completion", (stream,), {**completion, "stream": True}, path="/v1/completions"),
        Exchange("an alias", (Reply(b"{}"),), {**completion, "model": "any"}, path="/v1/embeddings"),
        Exchange("a cookie", (Reply(b"{}", headers=(("Set-Cookie", "a=b"), ("Server", "x"))),), {}, path="/tokenize"),
        Exchange("an error", (Reply(error, status=400),), completion, path="/v1/completions"),
        Exchange("no such route", (Reply(b'{"detail":"Not Found"}', status=404),), completion, path="/v1/rerank"),
        Exchange("a redirect", (Reply(b"", status=307, headers=(("Location", "/x"),)),), {}, path="/infill"),
        Exchange("cut off", (Reply(b'{"choices":', is_complete=False),), completion, path="/v1/completions"),
        Exchange("no JSON", body=b"[", path="/v1/embeddings"),
    ]
