"""Tools by HTTP callback, tested with a real server: requests, responses and retries."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import hmac
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.engine.events import Event, ToolServerFailed
from forge_proxy.tools.callbacks import HttpExecution, HttpExecutor
from forge_proxy.tools.config import CallbackConfig
from tests.fakes.processes import closed_port

SECRET = "a secret of the tests"
BOMB = gzip.compress(b" " * 50_000_000)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CALL = ToolCall("weather", '{"city": "Oslo"}', "call_1")


class FakeClock:
    """A clock that `sleep` advances. It starts at 2026-11-21 12:00 UTC."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return sum(self.slept)

    def time(self) -> float:
        return 1795262400 + self.now()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class ToolServer:
    """A server that sends these responses in turn, then the last one again, and records the requests."""

    def __init__(self, *json_response: Handler | web.Response) -> None:
        self._answers = list(json_response)
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.time = FakeClock()
        self.events: list[Event] = []

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if not isinstance(answer, web.Response):
            return await answer(request)
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[str]:
        """Serve and yield the address."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def call(self, url: str = "", listed: str = "", **options: Any) -> ToolOutcome:
        """Serve, call the tool and return the outcome."""
        async with self.served() as address:
            return await execute(url or f"{address}/weather", self, listed or address, **options)


async def execute(url: str, tool: ToolServer, listed: str, **options: Any) -> ToolOutcome:
    limits = {name: options.pop(name) for name in ("max_response_kb",) if name in options}
    config = CallbackConfig.model_validate({"allow": (listed,), "secret": SecretStr(SECRET), **limits})
    http = AioHttp(connect_seconds=5, silence_seconds=60)
    try:
        callback = HttpExecutor(config, http, tool.time, tool.events.append)
        return await callback.execute(HttpExecution(url=url, **options), CALL, "run-7/0/0", "run-7")
    finally:
        await http.close()


def json_response(value: object, status: int = 200, **headers: str) -> web.Response:
    return web.json_response(
        value, status=status, headers={name.replace("_", "-"): say for name, say in headers.items()}
    )


async def test_the_call_is_posted_and_its_output_is_the_result() -> None:
    tool = ToolServer(json_response({"output": {"degrees": 3}}))

    outcome = await tool.call()

    assert outcome == ToolOutcome('{"degrees":3}', value={"degrees": 3})
    (request,) = tool.requests
    assert (request.method, request.path, request.content_type) == ("POST", "/weather", "application/json")
    assert request.headers["Idempotency-Key"] == "run-7/0/0"
    assert json.loads(tool.bodies[0]) == {
        "run_id": "run-7",
        "tool": "weather",
        "arguments": {"city": "Oslo"},
        "call_id": "call_1",
        "key": "run-7/0/0",
    }


async def test_each_request_has_its_own_signature() -> None:
    tool = ToolServer(json_response({}, 503), json_response({"output": 1}))

    await tool.call()

    stamps = [request.headers["X-Forge-Timestamp"] for request in tool.requests]
    assert stamps == ["1795262400", "1795262400"]  # half a second apart
    for request, body in zip(tool.requests, tool.bodies, strict=True):
        signed = f"{request.headers['X-Forge-Timestamp']}.".encode() + body
        right = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
        assert request.headers["X-Forge-Signature"] == f"v1={right}"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (json_response({"output": "sunny"}), ToolOutcome("sunny", value="sunny")),
        (json_response({"output": None}), ToolOutcome("null")),
        (web.Response(text="sunny\n"), ToolOutcome("sunny\n", value="sunny\n")),
        (json_response({"error": "no licence"}), ToolOutcome.failed("no licence")),
        (json_response({"unresolved": "no such city"}), ToolOutcome.soft("no such city")),
        (
            web.Response(status=404, text="no  route\nhere"),
            ToolOutcome.failed("the tool's server answered 404: no route here"),
        ),
        (web.Response(status=401), ToolOutcome.failed("the tool's server answered 401")),
        (
            web.Response(status=204),
            ToolOutcome.failed("the tool's server answered 204"),
        ),
    ],
)
async def test_a_response_becomes_an_outcome_without_retries(answer: web.Response, outcome: ToolOutcome) -> None:
    tool = ToolServer(answer)

    assert await tool.call() == outcome
    assert len(tool.requests) == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (json_response({"degrees": 3}), 'or {"unresolved": "…"}, but is an object with degrees'),
        (json_response({"output": 1, "error": "x"}), "an object with error, output"),
        (json_response({"error": 5}), "an object with error"),
        (json_response([1]), "but is of type array"),
        (web.Response(body=b'{"output": 1', content_type="application/json"), "is not valid JSON"),
        (web.Response(body=b'{"output": NaN}', content_type="application/json"), "is not valid JSON"),
        (web.Response(body=b'{"output": 1e999}', content_type="application/json"), "is not valid JSON"),
        (web.Response(body=b'{"output": "\\ud83d"}', content_type="application/json"), "is not valid JSON"),
        (
            web.Response(body=b'{"output": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", content_type="application/json"),
            "is not valid JSON",
        ),
        (
            web.Response(body=b'{"output": ' + b"[" * 400 + b"]" * 400 + b"}", content_type="application/json"),
            "cannot be written as JSON",
        ),
        (web.Response(body=BOMB, headers={"Content-Encoding": "gzip", "Content-Type": "text/plain"}), "is larger than"),
        (web.Response(body=b"\xff", content_type="text/plain"), "is not UTF-8 text"),
        (web.Response(text="<p>sunny", content_type="text/html"), "answered with text/html"),
    ],
)
async def test_an_invalid_response_is_an_error_of_the_tool(answer: web.Response, message: str) -> None:
    outcome = await ToolServer(answer).call()

    assert outcome.status == "error"
    assert message in outcome.text


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
async def test_a_transient_failure_is_retried_with_the_same_key_and_body(status: int) -> None:
    tool = ToolServer(json_response({}, status), json_response({}, status), json_response({"output": "sunny"}))

    assert (await tool.call(retries=2)).text == "sunny"
    assert len(set(tool.bodies)) == len({request.headers["Idempotency-Key"] for request in tool.requests}) == 1
    assert tool.time.slept == [0.5, 1.0]


async def test_exhausted_retries_are_a_tool_error_and_each_failure_is_reported() -> None:
    tool = ToolServer(json_response({"error": "a secret"}, 503))

    outcome = await tool.call(retries=2)

    assert outcome == ToolOutcome.failed("the tool's server failed: it answered 503 (tried 3 times)")
    assert [(event.tool, event.key, event.why) for event in tool.events if isinstance(event, ToolServerFailed)] == [
        ("weather", "run-7/0/0", "it answered 503")
    ] * 3


@pytest.mark.parametrize(
    ("header", "slept"),
    [
        ("7", [7.0]),
        ("Sat, 21 Nov 2026 12:00:30 GMT", [30.0]),
        ("Sat, 21 Nov 2026 11:00:00 GMT", [0.5]),
        ("soon", [0.5]),
        ("Sat, 21 Nov 99999999999999999999 12:00:30 GMT", [0.5]),
        ("3600", []),  # longer than the limit for one pause
    ],
)
async def test_the_pause_follows_retry_after(header: str, slept: list[float]) -> None:
    tool = ToolServer(json_response({}, 429, Retry_After=header), json_response({"output": 1}))

    await tool.call()

    assert tool.time.slept == slept


async def test_an_unreachable_server_is_retried() -> None:
    tool = ToolServer(json_response({}))
    with closed_port() as port:
        outcome = await execute(f"http://127.0.0.1:{port}/", tool, f"http://127.0.0.1:{port}", retries=1)

    assert outcome.text.startswith("[ToolError] the tool's server failed: no connection: ")
    assert outcome.text.endswith("(tried 2 times)")
    assert tool.time.slept == [0.5]


async def test_a_broken_connection_is_retried() -> None:
    async def break_off(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    tool = ToolServer(break_off, json_response({"output": 1}))

    assert (await tool.call()).text == "1"


async def test_without_retries_a_call_is_sent_once_even_if_the_connection_breaks() -> None:
    async def break_off(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    tool = ToolServer(json_response({"output": 1}), break_off)
    http = AioHttp(connect_seconds=5, silence_seconds=60)
    async with tool.served() as address:
        config = CallbackConfig.model_validate({"allow": (address,), "secret": SecretStr(SECRET)})
        callback = HttpExecutor(config, http, tool.time, tool.events.append)
        outcomes = [await callback.execute(HttpExecution(url=address, retries=0), CALL, "k", "r") for _ in range(2)]
    await http.close()

    assert [outcome.status for outcome in outcomes] == ["ok", "error"]
    assert len(tool.requests) == 2


async def test_the_timeout_limits_the_whole_response() -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await answer.prepare(request)
        while True:
            await answer.write(b".")
            await asyncio.sleep(0.01)

    outcome = await ToolServer(drip).call(timeout_seconds=0.2, retries=0)

    assert outcome == ToolOutcome.failed("the tool's server failed: no response within 0.2 s (tried once)")


async def test_a_redirect_is_not_followed() -> None:
    elsewhere = ToolServer(json_response({"output": "from elsewhere"}))
    async with elsewhere.served() as address:
        outcome = await ToolServer(web.Response(status=307, headers={"Location": f"{address}/x"})).call()

    assert outcome == ToolOutcome.failed("the tool's server answered 307, and redirects are not followed")
    assert elsewhere.requests == []


async def test_an_unlisted_url_is_not_called() -> None:
    tool = ToolServer(json_response({"output": 1}))

    outcome = await tool.call(listed="https://tools.example.com")

    assert outcome.status == "error"
    assert "is not among the hosts that may be called: add it to tools.callbacks.allow" in outcome.text
    assert tool.requests == []


async def test_a_response_over_the_size_limit_is_not_read_completely() -> None:
    written = 0

    async def write_on(request: web.Request) -> web.StreamResponse:
        nonlocal written
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await answer.prepare(request)
        while True:
            await answer.write(b"." * 65536)
            written += 65536

    outcome = await ToolServer(write_on).call(max_response_kb=1)

    assert outcome == ToolOutcome.failed("the tool's response is larger than 1 KB")
    assert written < 100_000_000


async def test_cancelling_the_run_closes_the_connection() -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def wait(_: web.Request) -> web.StreamResponse:
        begun.set()
        try:
            await asyncio.sleep(1000)
        finally:
            left.set()
        return web.Response()

    tool = ToolServer(wait)
    async with tool.served() as address:
        calling = asyncio.create_task(execute(f"{address}/", tool, address))
        await begun.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await asyncio.wait_for(left.wait(), 30)
