"""A model server as a program: `python -m tests.fakes.model_server [SLOTS]`. OpenAI-compatible, and able to misbehave.

Each of its models is one behavior (see `MODELS`). It prints as JSON lines where it listens, the requests it receives,
and when a client disconnects before the response is complete; `user` of the request distinguishes requests. `POST /go`
releases the models that wait for it. With SLOTS it reports them as a llama-server does, but does not limit its requests
to them.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

JsonDict = dict[str, Any]

WORDS = ("one ", "two ", "three")
OVERFLOW: JsonDict = {
    "error": {
        "code": 400,
        "message": "the request exceeds the available context size, try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 5000,
        "n_ctx": 2048,
    }
}
BROKEN_CALL = '<tool_call>{"name": "get_weather", "arguments": {city: "a" days: 1}}</tool_call>'
_DEATHS = web.AppKey("deaths", dict[str, int])
_HEAD: JsonDict = {"id": "chatcmpl-fake", "created": 1700000000, "model": "fake"}


@dataclass
class Asked:
    """One request, and the ways to answer it."""

    request: web.Request
    body: JsonDict
    go: asyncio.Event

    async def whole(self, text: str = "".join(WORDS)) -> web.StreamResponse:
        """Send a whole response, as JSON."""
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}
        return web.json_response({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage})

    async def begin(self, *words: str) -> web.StreamResponse:
        """Send the head of a stream and its first chunks."""
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(self.request)
        for word in words:
            await response.write(_event(_chunk({"content": word})))
        return response

    async def streamed(self) -> web.StreamResponse:
        """Send a whole stream."""
        return await self.end(await self.begin(*WORDS))

    async def end(self, response: web.StreamResponse) -> web.StreamResponse:
        """End a stream regularly."""
        await response.write(_event(_chunk({}, "stop")) + b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    def reset(self) -> None:
        """End the connection as a crashed machine does."""
        assert self.request.transport
        held: socket.socket = self.request.transport.get_extra_info("socket")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.request.transport.abort()

    def cut(self) -> web.StreamResponse:
        """Close the connection immediately."""
        assert self.request.transport
        self.request.transport.close()
        return web.Response()


async def says(asked: Asked) -> web.StreamResponse:
    return await (asked.streamed() if asked.body.get("stream") else asked.whole())


async def says_much(asked: Asked) -> web.StreamResponse:
    """Send four megabytes, more than the sockets on the way buffer: a call if there are tools, else text."""
    text = "word " * 800_000
    message: JsonDict = {"role": "assistant", "content": text}
    if tools := asked.body.get("tools"):
        function = {"name": tools[0]["function"]["name"], "arguments": json.dumps({"city": text})}
        message = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
    finish = "tool_calls" if tools else "stop"
    if not asked.body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return web.json_response({**_HEAD, "object": "chat.completion", "choices": [choice]})
    response = await asked.begin()
    await response.write(_event(_chunk(message)) + _event(_chunk({}, finish)) + b"data: [DONE]\n\n")
    await response.write_eof()
    return response


async def waits(asked: Asked) -> web.StreamResponse:
    response = await asked.begin(WORDS[0])
    await asked.go.wait()
    for word in WORDS[1:]:
        await response.write(_event(_chunk({"content": word})))
    return await asked.end(response)


async def hangs(_: Asked) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def stalls(asked: Asked) -> web.StreamResponse:
    await asked.begin(WORDS[0])
    return await hangs(asked)


async def slow(asked: Asked) -> web.StreamResponse:
    """Process the prompt for a long time: send nothing until released."""
    await asked.go.wait()
    return await says(asked)


async def dies(asked: Asked) -> web.StreamResponse:
    await asked.begin(WORDS[0])
    return asked.cut()


async def dies_twice(asked: Asked) -> web.StreamResponse:
    """Break off twice for each `user`, then answer."""
    times: dict[str, int] = asked.request.app[_DEATHS]
    user = str(asked.body.get("user"))
    times[user] = times.get(user, 0) + 1
    return await (dies(asked) if times[user] < 3 else says(asked))


async def closes(asked: Asked) -> web.StreamResponse:
    return asked.cut()


async def resets(asked: Asked) -> web.StreamResponse:
    asked.reset()
    return web.Response()


async def resets_midway(asked: Asked) -> web.StreamResponse:
    await asked.begin(WORDS[0])
    asked.reset()
    return web.Response()


async def breaks_off_whole(asked: Asked) -> web.StreamResponse:
    """Announce the length of the response, and send less."""
    response = web.StreamResponse(headers={"content-type": "application/json", "content-length": "1000"})
    await response.prepare(asked.request)
    await response.write(b'{"choices": [{"index": 0, "message": {"content": "one ')
    return asked.cut()


async def speaks_no_http(asked: Asked) -> web.StreamResponse:
    assert asked.request.transport
    asked.request.transport.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
    return asked.cut()


async def stops_short(asked: Asked) -> web.StreamResponse:
    response = await asked.begin(WORDS[0])
    await response.write_eof()
    return response


async def errs_midway(asked: Asked) -> web.StreamResponse:
    response = await asked.begin(WORDS[0])
    await response.write(_event({"error": {"code": 500, "message": "out of memory", "type": "server_error"}}))
    await response.write_eof()
    return response


async def _goes_on(asked: Asked, field: str) -> web.StreamResponse:
    response = await asked.begin()
    while True:
        await response.write(_event(_chunk({field: "round "})))
        await asyncio.sleep(0)


async def loops(asked: Asked) -> web.StreamResponse:
    return await _goes_on(asked, "content")


async def loops_in_thought(asked: Asked) -> web.StreamResponse:
    return await _goes_on(asked, "reasoning_content")


async def kills(_: Asked) -> web.StreamResponse:
    """End the whole server."""
    os.kill(os.getpid(), signal.SIGKILL)
    return await hangs(_)


async def loops_once(asked: Asked) -> web.StreamResponse:
    return await (says(asked) if "repeat" in str(asked.body["messages"][-1]) else loops(asked))


async def babbles_midway(asked: Asked) -> web.StreamResponse:
    response = await asked.begin(WORDS[0])
    await response.write(b"data: this is no JSON\n\n")
    return await asked.end(response)


async def errs_under_200(_: Asked) -> web.StreamResponse:
    return web.json_response({"error": {"code": 500, "message": "out of memory", "type": "server_error"}})


async def errs_in_its_first_event(asked: Asked) -> web.StreamResponse:
    response = await asked.begin()
    await response.write(_event({"error": {"code": 500, "message": "out of memory", "type": "server_error"}}))
    return await asked.end(response)


async def overflows(_: Asked) -> web.StreamResponse:
    return web.json_response(OVERFLOW, status=400)


async def is_busy(_: Asked) -> web.StreamResponse:
    error = {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}
    return web.json_response({"error": error}, status=429, headers={"Retry-After": "7"})


async def fails(_: Asked) -> web.StreamResponse:
    return web.json_response({"error": {"code": 500, "message": "no memory left", "type": "server_error"}}, status=500)


async def fails_in_html(_: Asked) -> web.StreamResponse:
    return web.Response(text="<h1>Bad Gateway</h1>", status=502, content_type="text/html")


async def babbles(asked: Asked) -> web.StreamResponse:
    if not asked.body.get("stream"):
        return web.Response(text="this is no JSON", content_type="application/json")
    response = await asked.begin()
    await response.write(b"data: this is no JSON\n\n")
    return response


async def always_whole(asked: Asked) -> web.StreamResponse:
    return await asked.whole()


async def always_streams(asked: Asked) -> web.StreamResponse:
    return await asked.streamed()


async def talks_then_hangs(asked: Asked) -> web.StreamResponse:
    """Return text first; return nothing when the request is retried."""
    return await (says(asked) if len(asked.body["messages"]) == 1 else hangs(asked))


async def echoes(asked: Asked) -> web.StreamResponse:
    """Send its `user` letter by letter, the last ones only once released."""
    first, *others = asked.body["user"]
    response = await asked.begin(first)
    await asked.go.wait()
    for letter in others:
        await response.write(_event(_chunk({"content": letter})))
    return await asked.end(response)


async def calls_the_last(asked: Asked) -> web.StreamResponse:
    """Call the last offered tool with the number of bytes of the request."""
    *_, last, _ = [tool["function"]["name"] for tool in asked.body["tools"]]
    size = len(await asked.request.read())
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": last, "arguments": f'{{"n": {size}}}'}}
    response = await asked.begin()
    await response.write(_event(_chunk({"tool_calls": [call]})) + _event(_chunk({}, "tool_calls")))
    return await asked.end(response)


async def calls_brokenly(asked: Asked) -> web.StreamResponse:
    return await asked.whole(BROKEN_CALL)


async def streams_one_chunk(asked: Asked) -> web.StreamResponse:
    response = await asked.begin()
    await response.write(_event(_chunk({"role": "assistant", "content": "".join(WORDS)}, "stop")) + b"data: [DONE]\n\n")
    return response


MODELS: dict[str, Callable[[Asked], Awaitable[web.StreamResponse]]] = {
    model.__name__.replace("_", "-"): model
    for model in (
        says, says_much, waits, hangs, stalls, slow, dies, dies_twice, closes, resets, resets_midway, breaks_off_whole,
        speaks_no_http,
        stops_short, errs_midway, babbles_midway, errs_under_200, errs_in_its_first_event, overflows, is_busy, fails,
        fails_in_html, babbles, always_whole, always_streams, streams_one_chunk, talks_then_hangs, echoes,
        calls_the_last, calls_brokenly, kills, loops, loops_in_thought, loops_once,
    )
}  # fmt: skip


def _chunk(delta: JsonDict, finish: str | None = None) -> JsonDict:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {**_HEAD, "object": "chat.completion.chunk", "choices": [choice]}


def _event(value: JsonDict) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _say(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def application(slots: int | None = None, window: int | None = None) -> web.Application:
    """Create the server. With `slots`, and a `window` for each, it reports them as a llama-server does."""
    told: JsonDict = {} if slots is None else {"total_slots": slots}
    told |= {} if window is None else {"default_generation_settings": {"n_ctx": window}}
    go = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        body: JsonDict = json.loads(await request.read())
        asking = {"model": body["model"], "user": body.get("user")}
        keys = [request.headers[name] for name in ("Authorization", "X-Api-Key") if name in request.headers]
        _say(event="asked", **asking, keys=keys, messages=len(body["messages"]))
        try:
            return await MODELS[body["model"]](Asked(request, body, go))
        except (asyncio.CancelledError, ConnectionError):
            _say(event="left", **asking)
            raise

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": name} for name in MODELS]})

    async def locked(_: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "Invalid API Key", "type": "authentication_error"}}, status=401)

    async def props(_: web.Request) -> web.Response:
        return web.json_response(told)

    async def let_go(_: web.Request) -> web.Response:
        go.set()
        return web.Response()

    app = web.Application(client_max_size=64 * 1024 * 1024)
    app[_DEATHS] = {}
    app.add_routes(
        [
            web.post("/v1/chat/completions", answer),
            web.get("/v1/models", models),
            web.get("/locked/models", locked),
            web.get("/props", props),
            web.post("/go", let_go),
        ]
    )
    return app


async def main() -> None:
    """Serve until killed."""
    app = application(int(sys.argv[1]) if sys.argv[1:] else None)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    _say(event="listening", url="http://{}:{}".format(*runner.addresses[0][:2]))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
