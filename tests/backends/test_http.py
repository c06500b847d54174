"""What a model server may send at the level of HTTP: compressed, redirected, with cookies, without end, or not HTTP."""

from __future__ import annotations

import asyncio
import gzip
import re
import socket
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager

import pytest

from forge_proxy.backends import aiohttp_client
from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.backend_errors import (
    BackendBroke,
    BackendFault,
    BackendUnreachable,
    ResponseTooLarge,
    UnexpectedStatus,
)
from forge_proxy.core.chat import ChatRequest, ModelCall
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.pacing import LoopTurns, Weight

WHOLE = b'{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]}'


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    head = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(head).encode() + body


@asynccontextmanager
async def server(sent: bytes | Callable[[bytes], bytes]) -> AsyncGenerator[str]:
    """The URL of a server that answers every request with these bytes, whatever they are."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = await reader.read(65536)
            writer.write(sent if isinstance(sent, bytes) else sent(asked))
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


@pytest.fixture
async def http() -> AsyncGenerator[AioHttp]:
    client = AioHttp(connect_seconds=5, silence_seconds=5)
    yield client
    await client.close()


async def ask(url: str, http: AioHttp, *, stream: bool = False, max_response: int = 1024 * 1024) -> list[Chunk]:
    backend = OpenAICompatible(url, http, max_response=max_response)
    call = ModelCall(ChatRequest({"messages": []}, stream=stream), stream=stream)
    return [chunk async for chunk in backend.stream(call)]


async def test_a_body_that_is_compressed_unasked_is_read(http: AioHttp) -> None:
    async with server(answer(gzip.compress(WHOLE), "Content-Encoding: gzip")) as url:
        (chunk,) = await ask(url, http)

    assert chunk.deltas[0].text == "hi"


async def test_an_endless_compressed_body_is_aborted_at_the_limit(http: AioHttp) -> None:
    bomb = gzip.compress(b'{"choices":"' + b"a" * 30_000_000, 9)
    async with server(answer(bomb, "Content-Encoding: gzip")) as url:
        with pytest.raises(ResponseTooLarge, match=r"1 MB \(backend.max_response_mb\)"):
            await ask(url, http)


async def test_the_daemon_requests_an_uncompressed_response(http: AioHttp) -> None:
    requests: list[bytes] = []

    def respond(request: bytes) -> bytes:
        requests.append(request)
        return answer(WHOLE)

    async with server(respond) as url:
        await ask(url, http)

    assert re.findall(rb"(?im)^accept-encoding: *(.*?)\r$", requests[0]) == [b"identity"]


async def test_of_a_compressed_error_no_more_is_read_than_an_error_has(http: AioHttp) -> None:
    bomb = gzip.compress(b"a" * 30_000_000, 9)
    async with server(answer(bomb, "Content-Encoding: gzip", status="500 Oops")) as url:
        with pytest.raises(BackendFault) as caught:
            await ask(url, http)

    assert len(str(caught.value)) < 2 * 1024 * 1024


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (answer(b"\x1f\x00 not", "Content-Encoding: gzip"), "Content-Encoding gzip, but is not valid"),
        (answer(b"xx", "Content-Encoding: br"), "Content-Encoding br, which the daemon did not request"),
        (answer(b"xx", "Content-Encoding: zstd", status="500 Oops"), "Content-Encoding zstd, which"),
        (answer(b"xx", "Content-Encoding: gzip, br"), "Content-Encoding gzip, br, which"),
        (b"\x16\x03\x01 secret words\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"secret words" * 200_000 + b"\r\n\r\n", "its headers are too large"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 100_000 + b"\r\n", "its headers are too large"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nsecret words\r\n", "not HTTP"),
        (b"", "closed the connection without a response"),
        (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{"choice\r\n', "closed in the middle"),
        (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{"ch', "closed in the middle"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"choice', "closed in the middle"),
        (answer(b""), "the response is empty"),
        (answer(b"<html><body>It works!"), "an HTML page instead of JSON"),
    ],
)
async def test_what_cannot_be_read_is_named_and_not_quoted(http: AioHttp, sent: bytes, words: str) -> None:
    async with server(sent) as url:
        with pytest.raises(BackendBroke, match=words) as caught:
            await ask(url, http)

    assert "secret" not in str(caught.value)


async def test_informational_answers_are_passed_over(http: AioHttp) -> None:
    ahead = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    async with server(ahead + answer(WHOLE)) as url:
        (chunk,) = await ask(url, http)

    assert chunk.deltas[0].text == "hi"


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
async def test_a_redirect_is_not_followed_and_the_error_names_its_target_without_credentials(
    http: AioHttp, status: str
) -> None:
    where = "Location: https://user:secret@other.example/v1?token=secret"
    async with server(answer(b"", where, status=status)) as url:
        with pytest.raises(UnexpectedStatus) as caught:
            await ask(url, http)

    assert "a redirect to https://other.example/v1, which is not followed" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("where", ["", "Location: http://[::1", "Location: \x7f:::"])
async def test_a_redirect_without_a_target_is_an_error_too(http: AioHttp, where: str) -> None:
    async with server(answer(b"", *([where] if where else []), status="302 Found")) as url:
        with pytest.raises(BackendFault):
            await ask(url, http)


async def test_a_cookie_is_never_sent_back(http: AioHttp) -> None:
    asked: list[bytes] = []

    def sets_cookie(request: bytes) -> bytes:
        asked.append(request)
        return answer(WHOLE, "Set-Cookie: session=one; Path=/")

    async with server(sets_cookie) as url:
        for _ in range(2):
            await ask(url.replace("127.0.0.1", "localhost"), http)

    assert len(asked) == 2
    assert not any(b"cookie" in request.lower() for request in asked)


@pytest.mark.parametrize("key", [None, "k"])
async def test_credentials_in_the_url_are_sent_and_never_reported(http: AioHttp, key: str | None) -> None:
    asked: list[bytes] = []

    def fails(request: bytes) -> bytes:
        asked.append(request)
        return answer(b"no", status="500 Oops")

    async with server(fails) as url:
        backend = OpenAICompatible(url.replace("//", "//ann:s%3Acret@"), http, api_key=key)
        with pytest.raises(BackendFault) as caught:
            await backend.models()

    assert (b"Basic YW5uOnM6Y3JldA==" in asked[0]) is (key is None)
    assert (b"Bearer k" in asked[0]) is (key is not None)
    assert "cret" not in str(caught.value)


async def test_a_server_of_https_that_speaks_http_is_named(http: AioHttp) -> None:
    async with server(answer(WHOLE)) as url:
        with pytest.raises(BackendUnreachable, match="it speaks http and not https"):
            await ask(url.replace("http:", "https:"), http)


async def test_a_connection_that_is_late_because_of_a_slow_event_loop_is_retried() -> None:
    http = AioHttp(connect_seconds=0.15, silence_seconds=5)
    stalling = True

    async def stall() -> None:
        while stalling:
            time.sleep(0.1)  # noqa: ASYNC251  it is what is tested
            await asyncio.sleep(0)

    async with server(answer(WHOLE)) as url:
        task = asyncio.create_task(stall())
        try:
            (chunk,) = await ask(url, http)
        finally:
            stalling = False
            await task
            await http.close()

    assert chunk.deltas[0].text == "hi"


async def test_a_connection_that_the_server_does_not_accept_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[float] = []
    turns = aiohttp_client._turn_seconds  # pyright: ignore[reportPrivateUsage]  # to count the tries

    async def counted() -> float:
        tries.append(await turns())
        return 0

    monkeypatch.setattr(aiohttp_client, "_turn_seconds", counted)
    http = AioHttp(connect_seconds=0.2, silence_seconds=5)
    with socket.socket() as full, ExitStack() as holding:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # what the kernel takes in by itself
            waiting = holding.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        with pytest.raises(BackendUnreachable, match=r"no connection within 0\.2 s"):
            await ask(f"http://127.0.0.1:{full.getsockname()[1]}", http)
    await http.close()

    assert len(tries) == 1


async def test_the_end_of_a_body_waits_for_a_turn_of_the_event_loop() -> None:
    """A body that is one JSON object is parsed at its end, and many may end at the same time."""
    events: list[str] = []

    class RecordedTurns(LoopTurns):
        async def take(self, weight: Weight = Weight.FRESH) -> None:
            events.append("turn")
            await super().take(weight)

        def is_open(self, number: int) -> bool:
            return False  # as if each step came in another round

    client = AioHttp(connect_seconds=5, silence_seconds=5, turns=RecordedTurns())
    async with server(answer(WHOLE)) as url, client.open("GET", url) as response:
        events.extend(["piece" async for _ in response.pieces()])
    await client.close()

    assert events == ["turn", "turn", "piece"]
