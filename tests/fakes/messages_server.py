"""A server that speaks Anthropic's Messages protocol, as a program: `python -m tests.fakes.messages_server`.

It rejects what the service rejects: unknown fields, roles that do not alternate, calls without results. Each of its
models is one behavior (see `MODELS`). It prints as JSON lines where it listens, the requests it receives, and when a
client disconnects before the response is complete.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

JsonDict = dict[str, Any]
_FIELDS = frozenset(
    {"model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "stop_sequences", "temperature",
     "top_p", "top_k", "metadata", "thinking", "output_config", "cache_control"}
)  # fmt: skip


class Refusal(Exception):
    """An error of the service."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def check(body: JsonDict) -> None:
    """Raise `Refusal` for a request that the service rejects."""

    def refuse(why: str) -> None:
        raise Refusal(400, "invalid_request_error", why)

    for name in body.keys() - _FIELDS:
        refuse(f"{name}: Extra inputs are not permitted")
    if not body.get("max_tokens"):
        refuse("max_tokens: Field required")
    wanted = "user"
    open_calls: list[str] = []
    for place, message in enumerate(body["messages"]):
        if message["role"] != wanted:
            refuse("messages: roles must alternate")
        wanted = "assistant" if wanted == "user" else "user"
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        if sorted(results) != sorted(open_calls):
            refuse(f"messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after")
        if any(block["type"] == "text" and not block["text"].strip() for block in message["content"]):
            refuse("messages: text content blocks must contain non-whitespace text")
        open_calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    if open_calls:
        refuse("messages: `tool_use` ids were found without `tool_result` blocks immediately after")


class Answer:
    """A stream that is being written."""

    def __init__(self, request: web.Request, body: JsonDict) -> None:
        self.body = body
        self._request = request
        self._response = web.StreamResponse(headers={"content-type": "text/event-stream", "request-id": "req_2"})
        self._blocks = 0

    async def begin(self) -> None:
        await self._response.prepare(self._request)
        usage = {"input_tokens": 7, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": self.body["model"], "content": []}
        await self.send({"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}})

    async def block(self, began: JsonDict, *deltas: JsonDict) -> None:
        place, self._blocks = self._blocks, self._blocks + 1
        await self.send({"type": "content_block_start", "index": place, "content_block": began})
        for delta in deltas:
            await self.send({"type": "content_block_delta", "index": place, "delta": delta})
        await self.send({"type": "content_block_stop", "index": place})

    async def say(self, text: str) -> None:
        await self.block({"type": "text", "text": ""}, {"type": "text_delta", "text": text})

    async def end(self, reason: str = "end_turn") -> web.StreamResponse:
        usage = {"output_tokens": 3}
        await self.send({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage})
        await self.send({"type": "message_stop"})
        await self._response.write_eof()
        return self._response

    async def send(self, event: JsonDict) -> None:
        await self._response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())


async def says(answer: Answer) -> web.StreamResponse:
    await answer.begin()
    await answer.say("one ")
    await answer.say("two")
    return await answer.end()


async def calls(answer: Answer) -> web.StreamResponse:
    """Call the first tool, without the required city until a tool result reports that it is missing."""
    *_, last = answer.body["messages"]
    told = any(block["type"] == "tool_result" for block in last["content"])
    await answer.begin()
    thought = {"type": "thinking_delta", "thinking": "hm"}
    await answer.block({"type": "thinking", "thinking": ""}, thought, {"type": "signature_delta", "signature": "s"})
    call = {"type": "tool_use", "id": "toolu_1", "name": answer.body["tools"][0]["name"], "input": {}}
    arguments = '{"city": "Oslo"}' if told else '{"town": 1}'
    await answer.block(call, {"type": "input_json_delta", "partial_json": arguments})
    return await answer.end("tool_use")


async def stalls(answer: Answer) -> web.StreamResponse:
    await answer.begin()
    await answer.say("one ")
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def hangs(_: Answer) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def has_no_temperature(answer: Answer) -> web.StreamResponse:
    if "temperature" in answer.body:
        raise Refusal(400, "invalid_request_error", "`temperature` is deprecated for this model.")
    return await says(answer)


async def overflows(_: Answer) -> web.StreamResponse:
    raise Refusal(400, "invalid_request_error", "prompt is too long: 205000 tokens > 200000 maximum")


async def has_little_room(answer: Answer) -> web.StreamResponse:
    limit = answer.body["max_tokens"]
    if limit > 1000:
        words = f"input length and `max_tokens` exceed context limit: 199000 + {limit} > 200000, decrease either"
        raise Refusal(400, "invalid_request_error", words)
    return await says(answer)


async def is_busy(_: Answer) -> web.StreamResponse:
    raise Refusal(429, "rate_limit_error", "slow down")


async def is_overloaded_midway(answer: Answer) -> web.StreamResponse:
    await answer.begin()
    await answer.say("one ")
    await answer.send({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    return await answer.end()


MODELS: dict[str, Callable[[Answer], Awaitable[web.StreamResponse]]] = {
    model.__name__.replace("_", "-"): model
    for model in (
        says,
        calls,
        stalls,
        hangs,
        has_no_temperature,
        has_little_room,
        overflows,
        is_busy,
        is_overloaded_midway,
    )
}


def _say(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def _refused(refusal: Refusal) -> web.Response:
    headers = {"request-id": "req_1", **({"retry-after": "7"} if refusal.status == 429 else {})}
    return web.json_response(refusal.body, status=refusal.status, headers=headers)


async def main() -> None:
    """Serve until killed."""

    def let_in(request: web.Request) -> None:
        if "its-own" not in (request.headers.get("x-api-key"), request.headers.get("authorization", "")[7:]):
            raise Refusal(401, "authentication_error", "invalid x-api-key")

    async def answer(request: web.Request) -> web.StreamResponse:
        body: JsonDict = json.loads(await request.read())
        _say(event="asked", model=body["model"], version=request.headers.get("anthropic-version"), body=body)
        try:
            let_in(request)
            check(body)
            return await MODELS[body["model"]](Answer(request, body))
        except Refusal as refusal:
            return _refused(refusal)
        except (asyncio.CancelledError, ConnectionError):
            _say(event="left", model=body["model"])
            raise

    async def models(request: web.Request) -> web.Response:
        try:
            let_in(request)
        except Refusal as refusal:
            return _refused(refusal)
        listed = [
            {"type": "model", "id": name, "display_name": name, "max_input_tokens": 200000, "max_tokens": 64000}
            for name in MODELS
        ]
        return web.json_response({"data": listed, "has_more": False, "first_id": "says", "last_id": "says"})

    async def count(request: web.Request) -> web.Response:
        body: JsonDict = json.loads(await request.read())
        return web.json_response({"input_tokens": 5 + len(body.get("tools", []))})

    app = web.Application()
    app.add_routes(
        [
            web.post("/v1/messages", answer),
            web.post("/v1/messages/count_tokens", count),
            web.get("/v1/models", models),
        ]
    )
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    _say(event="listening", url="http://{}:{}".format(*runner.addresses[0][:2]))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
