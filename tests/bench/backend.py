"""A model server that costs next to nothing: `python -m tests.bench.backend PORT`.

Prepared responses, cut as llama-server cuts them, under uvicorn. `model` selects the response, `max_tokens` or
`max_completion_tokens` the number of pieces, `bench_pace_ms` the time before each piece.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

JsonDict = dict[str, Any]

TALKS = "talks"
"""Writes text, even if tools are offered."""
CALLS = "calls"
"""Makes a native call of `TOOL`."""
RESPONDS = "responds"
"""Makes a native call of the `respond` tool."""
TOOL = "get_weather"
_CALLED = {CALLS: (TOOL, "city"), RESPONDS: ("respond", "message")}
_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@dataclass(frozen=True, slots=True)
class Asked:
    """The fields of a request that matter here."""

    model: str
    pieces: int
    stream: bool
    usage: bool
    pace: float

    @classmethod
    def read(cls, body: bytes) -> Asked:
        said: JsonDict = orjson.loads(body)
        options: JsonDict = said.get("stream_options") or {}
        return cls(
            said["model"],
            said.get("max_tokens") or said["max_completion_tokens"],
            said.get("stream", False),
            options.get("include_usage", False),
            said.get("bench_pace_ms", 0) / 1000,
        )


def _pieces(count: int) -> list[str]:
    """Return words of four letters in another order each time: text that repeats itself would be cut as a loop."""
    return [f" {number * 40503 % 65536:04x}" for number in range(count)]


@lru_cache
def stream_of(model: str, pieces: int, *, usage: bool) -> tuple[bytes, ...]:
    """Return the events of a streamed response."""
    deltas: list[JsonDict]
    if model in _CALLED:
        name, key = _CALLED[model]
        called = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}
        parts = [f'{{"{key}":"', *_pieces(pieces), '"}']
        deltas = [{"role": "assistant", "content": None, "tool_calls": [called]}]
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in parts]
    else:
        deltas = [{"role": "assistant", "content": None}, *[{"content": piece} for piece in _pieces(pieces)]]
    choices: list[JsonDict] = [{"finish_reason": None, "index": 0, "delta": delta} for delta in deltas]
    choices.append({"finish_reason": "tool_calls" if model in _CALLED else "stop", "index": 0, "delta": {}})
    events = [_event(model, choices=[choice]) for choice in choices]
    if usage:
        events.append(_event(model, choices=[], usage=_USAGE))
    return (*events, b"data: [DONE]\n\n")


@lru_cache
def whole_of(model: str, pieces: int) -> bytes:
    """Return the same response whole."""
    message: JsonDict = {"role": "assistant", "content": "".join(_pieces(pieces))}
    if model in _CALLED:
        name, key = _CALLED[model]
        called = {"name": name, "arguments": f'{{"{key}":"{"".join(_pieces(pieces))}"}}'}
        call = {"id": "call_1", "type": "function", "function": called}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"finish_reason": "tool_calls" if model in _CALLED else "stop", "index": 0, "message": message}
    return orjson.dumps(_body(model, "chat.completion", choices=[choice], usage=_USAGE))


def _body(model: str, kind: str, **fields: Any) -> JsonDict:
    head = {"created": 1700000000, "id": "chatcmpl-6Jq2kWx0Yb3vN8pLr5TzHs1Dc", "model": model}
    return {**fields, **head, "system_fingerprint": "b11434-3f1c2a", "object": kind}


def _event(model: str, **fields: Any) -> bytes:
    return b"data: " + orjson.dumps(_body(model, "chat.completion.chunk", **fields)) + b"\n\n"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application."""
    match scope["path"]:
        case "/v1/chat/completions":
            asked = Asked.read(await _body_of(receive))
            if not asked.stream:
                await asyncio.sleep(asked.pace * asked.pieces)
            await (_stream(asked, send) if asked.stream else _send(send, whole_of(asked.model, asked.pieces)))
        case "/v1/models":
            cards = [{"id": name, "object": "model"} for name in (TALKS, CALLS, RESPONDS)]
            await _send(send, orjson.dumps({"object": "list", "data": cards}))
        case _:
            await _send(send, b"{}")


async def _body_of(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def _stream(asked: Asked, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for event in stream_of(asked.model, asked.pieces, usage=asked.usage):
        await asyncio.sleep(asked.pace)  # yields to the loop even without a pace, so that each event is a write
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _send(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def serve(served: ASGIApp, port: int) -> None:
    """Run an application until killed, as the daemon runs its own."""
    config = uvicorn.Config(
        served, port=port, log_config=None, access_log=False, server_header=False, lifespan="off", http="httptools"
    )
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(app, int(sys.argv[1])))
