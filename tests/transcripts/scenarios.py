"""The exchanges of each transcript: clients' requests of every route and kind, right and wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tests.transcripts.exchange import Exchange
from tests.transcripts.messages import message_exchanges
from tests.transcripts.ollama_api import ollama_backend_exchanges, ollama_exchanges, relay_exchanges
from tests.transcripts.replies import NATIVE, PLAIN, SEQUENCES, openai_replies, recorded_replies
from tests.transcripts.responses import response_exchanges
from tests.transcripts.server import Reply

JsonDict = dict[str, Any]
Kind = Literal["openai", "ollama", "anthropic"]

TOOL: JsonDict = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of the next days.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
TIME: JsonDict = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}}
USER: JsonDict = {"role": "user", "content": "What is the weather in Paris?"}
PLAIN_CHAT: JsonDict = {"model": "scripted", "messages": [USER]}
GUARDED: JsonDict = {**PLAIN_CHAT, "tools": [TOOL, TIME]}


@dataclass(frozen=True)
class Transcript:
    """Exchanges with one daemon, one after the other, before a model server of one kind."""

    name: str
    exchanges: tuple[Exchange, ...]
    kind: Kind = "openai"
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables of the daemon, in addition to its backend."""
    early_end: Literal["accept", "auto"] = "accept"
    """`guardrails.on_early_end`: most replies end the task before its tool is called."""


def _chat(name: str, said: str, body: JsonDict, *, stream: bool, headers: Mapping[str, str] | None = None) -> Exchange:
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}} if stream else body
    replies = {**SEQUENCES, **_TWICE}[said]
    return Exchange(name, openai_replies(replies, stream=True), asked, headers=headers or {})


def _unguarded(said: str, *, stream: bool) -> Exchange:
    body = {**PLAIN_CHAT, "stream": stream}
    form = "streamed" if stream else "whole"
    return Exchange(f"{said}, {form}", openai_replies(SEQUENCES[said], stream=stream), body)


_TWICE = {"native call twice": (NATIVE, NATIVE)}
_ONLY_TIME: JsonDict = {"type": "function", "function": {"name": "get_time"}}
_IMAGE: JsonDict = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
_FORMS = ((False, "whole"), (True, "streamed"))

_OPTIONS: dict[str, tuple[str, JsonDict]] = {
    "tool_choice required": ("plain text, then a call", {"tool_choice": "required"}),
    "tool_choice required, never followed": ("plain text five times", {"tool_choice": "required"}),
    "tool_choice of one tool": ("another tool, then that one", {"tool_choice": _ONLY_TIME}),
    "tool_choice none": ("Hermes markup", {"tool_choice": "none"}),
    "one call at a time": ("two native calls", {"parallel_tool_calls": False}),
    "unknown fields": ("native call", {"min_p": 0.1, "x_own": {"a": [1, None, "ü"]}, "seed": 7, "max_tokens": 50}),
    "log probabilities": ("native call", {"logprobs": True, "top_logprobs": 2}),
    "two choices": ("native call", {"n": 2}),
    "a history with results": (
        "respond",
        {
            "messages": [
                {"role": "system", "content": "Be short."},
                USER,
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "call_1", "type": "function",
                     "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}]},
                {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
                {"role": "user", "content": [{"type": "text", "text": "And this?"}, _IMAGE]},
            ]
        },
    ),
    "a repeated call": (
        "native call twice",
        {
            "messages": [
                USER,
                {"role": "assistant", "tool_calls": [
                    {"id": "call_1", "type": "function",
                     "function": {"name": "get_weather", "arguments": '{"city": "Paris", "days": 2}'}}]},
                {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
            ]
        },
    ),
}  # fmt: skip

_WRONG: dict[str, Any] = {
    "no JSON": b"{",
    "no object": [],
    "no messages": {"model": "scripted"},
    "messages of a wrong type": {"messages": "hi"},
    "an unknown role": {"messages": [{"role": "usr", "content": "hi"}]},
    "content of a wrong type": {"messages": [{"role": "user", "content": 5}]},
    "stream of a wrong type": {**PLAIN_CHAT, "stream": "yes"},
    "n of 0": {**GUARDED, "n": 0},
    "n too large": {**GUARDED, "n": 129},
    "tools of a wrong type": {**PLAIN_CHAT, "tools": {}},
    "a tool without a name": {**PLAIN_CHAT, "tools": [{"type": "function", "function": {}}]},
    "two tools of a name": {**PLAIN_CHAT, "tools": [TOOL, TOOL]},
    "an invalid schema": {
        **PLAIN_CHAT,
        "tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "strin"}}}],
    },
    "tool_choice of a tool that is not offered": {
        **GUARDED,
        "tool_choice": {"type": "function", "function": {"name": "x"}},
    },
    "tool_choice without tools": {**PLAIN_CHAT, "tool_choice": "required"},
    "max_tokens of a wrong type": {**PLAIN_CHAT, "max_tokens": "many"},
    "an unknown model": {**PLAIN_CHAT, "model": "unknown"},
    "a name of 300 characters": {**PLAIN_CHAT, "tools": [{"type": "function", "function": {"name": "a" * 300}}]},
}


def _chat_transcripts() -> list[Transcript]:
    guarded = [_chat(f"{said}, {form}", said, GUARDED, stream=stream) for said in SEQUENCES for stream, form in _FORMS]
    options = [
        _chat(f"{name}, {form}", said, {**GUARDED, **fields}, stream=stream)
        for name, (said, fields) in _OPTIONS.items()
        for stream, form in _FORMS
    ]
    unguarded = [_unguarded(said, stream=stream) for said in SEQUENCES for stream, _ in _FORMS]
    switched = [
        _chat(f"{header}: {said}", said, GUARDED, stream=False, headers={"x-forge-guardrails": header})
        for header in ("off", "on", "rescue", "rescue,retry", "respond,validate", "unknown")
        for said in ("Hermes markup", "plain text", "wrong type, then a call")
    ]
    wrong = [Exchange(name, openai_replies((PLAIN,), stream=False), body) for name, body in _WRONG.items()]
    return [
        Transcript("chat guarded", tuple(guarded), settings={"FORGE_PROXY_GUARDRAILS__TEXT_ANSWERS": "nudge"}),
        Transcript("chat guarded, text accepted", tuple(guarded),
                   settings={"FORGE_PROXY_GUARDRAILS__TEXT_ANSWERS": "accept"}),
        Transcript("chat options", tuple(options)),
        Transcript("chat without tools", tuple(unguarded)),
        Transcript("chat guardrails switched", tuple(switched)),
        Transcript("chat wrong requests", tuple(wrong)),
        Transcript(
            "chat tools in the prompt",
            tuple(_chat(f"{said}, {form}", said, GUARDED, stream=stream)
                  for said in ("Hermes markup", "plain text", "respond") for stream, form in _FORMS),
            settings={"FORGE_PROXY_BACKEND__TOOLS": "prompt"},
        ),
    ]  # fmt: skip


def _recorded(kind: Kind) -> Transcript:
    exchanges = [
        Exchange(f"{name}, {form}, {words}", (reply,) * 4, {**body, "stream": stream})
        for stream, form in _FORMS
        for name, reply in recorded_replies(kind, stream=True).items()
        for words, body in (("guarded", GUARDED), ("without tools", PLAIN_CHAT))
        if words == "guarded" or stream
    ]
    whole = [
        Exchange(f"{name}, whole response", (reply,), {**PLAIN_CHAT, "max_tokens": 20})
        for name, reply in recorded_replies(kind, stream=False).items()
    ]
    return Transcript(f"recorded {kind}", (*exchanges, *whole), kind)


def _get(path: str, **headers: str) -> Exchange:
    return Exchange(f"GET {path}", method="GET", path=path, headers=headers)


def _change(method: str, path: str, body: Any, name: str = "") -> Exchange:
    return Exchange(f"{method} {path} {name or json.dumps(body)[:60]}", body=body, method=method, path=path)


def _admin() -> Transcript:
    admin = "/admin/v1"
    reads = (
        "models", "budget", "backend", "guardrails", "guardrails/clients", "compaction", "sampling",
        "text-responses", "text-answers", "config", "status",
    )  # fmt: skip
    history = [USER, *({"role": "assistant", "content": "x" * 4000}, {"role": "user", "content": "y" * 4000}) * 5]
    return Transcript(
        "admin",
        early_end="auto",
        exchanges=(
            _get("/v1/models"), _get("/v1/models/scripted"), _get("/v1/models/unknown"), _get("/"), _get("/health"),
            _get("/healthz"), _get("/readyz"), _get("/nowhere"), _get("/v1/chat/completion"),
            *(_get(f"{admin}/{name}") for name in reads),
            _change("PUT", f"{admin}/budget", {"mode": "manual", "tokens": 4096}),
            _change("PUT", f"{admin}/budget", {"mode": "backend"}),
            _change("PUT", f"{admin}/budget", {"mode": "fast"}),
            _change("PUT", f"{admin}/budget", {"tokens": "many"}),
            _change("PATCH", f"{admin}/guardrails", {"enabled": {"rescue": False}}),
            _change("PATCH", f"{admin}/guardrails", {"enabled": {"rescue": True}, "max_retries": 2}),
            _change("PATCH", f"{admin}/guardrails", {"max_retries": -1}),
            _change("PATCH", f"{admin}/guardrails", {"unknown": 1}),
            _change("PUT", f"{admin}/compaction", {"strategy": "sliding", "threshold": 0.5}),
            _change("PUT", f"{admin}/compaction", {"strategy": "none of these"}),
            _change("POST", f"{admin}/compaction/preview", {"model": "scripted", "messages": history}, "a history"),
            _change("PUT", f"{admin}/sampling", {"use_recommended": True}),
            _change("DELETE", f"{admin}/text-responses", None),
            _change("DELETE", f"{admin}/text-responses/unknown", None),
            _change("POST", f"{admin}/backend/start", None), _change("POST", f"{admin}/backend/stop", None),
            _change("POST", f"{admin}/backend/model", {"model": "x"}), _get(f"{admin}/backend/logs"),
            _change("POST", f"{admin}/reload", None), _change("POST", f"{admin}/status", {}), _get(f"{admin}/nowhere"),
        ),
    )  # fmt: skip


_WORKFLOW: JsonDict = {
    "name": "weather",
    "tools": {
        "get_weather": {
            "description": "The weather.",
            "parameters": TOOL["function"]["parameters"],
            "execute": {"by": "arguments"},
        }
    },
    "terminal_tool": "get_weather",
    "system_prompt_template": "Answer about {place}.",
}
_SUBMISSION: JsonDict = {"workflow": _WORKFLOW, "user_message": "Go.", "prompt_vars": {"place": "Paris"}}


def _runs() -> Transcript:
    runs = "/admin/v1/runs"
    exchanges = (
            _get(runs),
            Exchange("submit", openai_replies((NATIVE,), stream=True), _SUBMISSION, path=runs,
                     headers={"Idempotency-Key": "one"}),
            Exchange("events of the latest run", method="GET", path=f"{runs}/{{latest}}/events"),
            Exchange("the latest run", method="GET", path=f"{runs}/{{latest}}"),
            Exchange("submit again", (), _SUBMISSION, path=runs, headers={"Idempotency-Key": "one"}),
            Exchange("submit another with the same key", (), {**_SUBMISSION, "user_message": "No."}, path=runs,
                     headers={"Idempotency-Key": "one"}),
            _change("POST", runs, {}), _change("POST", runs, {**_SUBMISSION, "options": {"stream": True}}, "options"),
            _change("POST", runs, {**_SUBMISSION, "prompt_vars": {}}, "without a placeholder"),
            Exchange("outputs", method="POST", path=f"{runs}/{{latest}}/tool_outputs", body={"outputs": []}),
            Exchange("cancel", method="POST", path=f"{runs}/{{latest}}/cancel"),
            Exchange("delete", method="DELETE", path=f"{runs}/{{latest}}"),
            Exchange("deleted", method="GET", path=f"{runs}/{{latest}}"),
            _get(f"{runs}?limit=0"), _get(f"{runs}?status=unknown"), _get(f"{runs}/run_unknown"),
    )  # fmt: skip
    return Transcript("runs", tuple(replace(one, is_background=True) for one in exchanges))


def _access() -> Transcript:
    keys = {"FORGE_PROXY_SERVER__API_KEYS": "sk-one", "FORGE_PROXY_SERVER__ADMIN_KEYS": "sk-admin"}
    reply = (Reply(PLAIN.as_whole()),)
    body = PLAIN_CHAT
    return Transcript(
        "access",
        (
            Exchange("no key", reply, body),
            Exchange("a wrong key", reply, body, headers={"Authorization": "Bearer x"}),
            Exchange("the key", reply, body, headers={"Authorization": "Bearer sk-one"}),
            Exchange("the key of Anthropic's SDK", reply, body, headers={"x-api-key": "sk-one"}),
            _get("/admin/v1/status", Authorization="Bearer sk-one"),
            _get("/admin/v1/budget", Authorization="Bearer sk-admin"),
            _get("/healthz"), _get("/v1/models", Origin="http://elsewhere.example"),
            Exchange("a form", reply, b"a=1", headers={"content-type": "multipart/form-data; boundary=x"}),
        ),
        settings=keys,
    )  # fmt: skip


TRANSCRIPTS = (
    *_chat_transcripts(),
    *(_recorded(kind) for kind in ("openai", "ollama", "anthropic")),
    _admin(),
    _runs(),
    _access(),
    Transcript("responses", tuple(response_exchanges()), settings={"FORGE_PROXY_GUARDRAILS__TEXT_ANSWERS": "accept"}),
    Transcript("ollama api", tuple(ollama_exchanges()), settings={"FORGE_PROXY_GUARDRAILS__TEXT_ANSWERS": "accept"}),
    Transcript("ollama api before an ollama", tuple(ollama_backend_exchanges()), "ollama"),
    Transcript("relay", tuple(relay_exchanges())),
    Transcript("messages", tuple(message_exchanges()), settings={"FORGE_PROXY_GUARDRAILS__TEXT_ANSWERS": "accept"}),
)
