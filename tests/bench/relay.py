"""A bare relay: `python -m tests.bench.relay CLIENT PORT BACKEND_PORT`. FastAPI, one HTTP client, and no logic at all.

The overhead of the daemon is compared with that of this relay. CLIENT is `httpx`, `httpx-aiohttp` or `aiohttp`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable

import aiohttp
import httpx
import uvloop
from fastapi import FastAPI
from httpx_aiohttp import AiohttpTransport
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tests.bench.backend import serve

CLIENTS = ("aiohttp", "httpx-aiohttp", "httpx")
"""The names of the clients; the daemon uses the first one."""
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}

Answer = tuple[str, AsyncGenerator[bytes]]
"""The content type, and the body as it arrives."""
Forward = Callable[[bytes], Awaitable[Answer]]


def by_aiohttp(url: str) -> Forward:
    """Forward with aiohttp."""
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=_HEADERS)

    async def forward(body: bytes) -> Answer:
        response = await session.post(url, data=body)

        async def pieces() -> AsyncGenerator[bytes]:
            async with response:
                async for piece in response.content.iter_any():
                    yield piece

        return response.headers["content-type"], pieces()

    return forward


def by_httpx(url: str, transport: httpx.AsyncBaseTransport | None = None) -> Forward:
    """Forward with httpx, over its own transport or another one."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    client = httpx.AsyncClient(transport=transport, limits=limits, headers=_HEADERS, timeout=60)

    async def forward(body: bytes) -> Answer:
        response = await client.send(client.build_request("POST", url, content=body), stream=True)

        async def pieces() -> AsyncGenerator[bytes]:
            try:
                async for piece in response.aiter_raw():
                    yield piece
            finally:
                await response.aclose()

        return response.headers["content-type"], pieces()

    return forward


def create_app(forward: Forward) -> FastAPI:
    """The application: the same kind of routes as the daemon's."""

    async def relay(request: Request) -> Response:
        kind, pieces = await forward(await request.body())
        if kind.startswith("text/event-stream"):
            return StreamingResponse(pieces, media_type=kind)
        return Response(b"".join([piece async for piece in pieces]), media_type=kind)

    async def alive(_: Request) -> Response:
        return Response(b"ok")

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_route("/v1/chat/completions", relay, methods=["POST"])
    app.add_route("/healthz", alive, methods=["GET"])
    return app


async def main(client: str, port: int, backend_port: int) -> None:
    """Relay until killed."""
    url = f"http://127.0.0.1:{backend_port}/v1/chat/completions"
    match client:
        case "aiohttp":
            forward = by_aiohttp(url)
        case "httpx-aiohttp":
            connector = aiohttp.TCPConnector(limit=0)
            forward = by_httpx(url, AiohttpTransport(client=aiohttp.ClientSession(connector=connector)))
        case _:
            forward = by_httpx(url)
    await serve(create_app(forward), port)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
