"""Relays requests to routes that only the model server implements (`engine.ports.RawRelay`).

An error of the server is forwarded as it is, except one that concerns the daemon: its key, its address, or a route that
the server does not have.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from forge_proxy.backends.exchange import check_status, parse_body, select_headers
from forge_proxy.backends.http import HttpClient, read_capped
from forge_proxy.core.backend_errors import BackendError, RouteNotSupported
from forge_proxy.core.jsontypes import Json
from forge_proxy.engine.ports import RawResponse
from forge_proxy.wire.relay import RawCall

_READ_SECONDS = 5.0
"""Time limit for requests that only read the state of the server."""
_REFUSES_KEY = frozenset({401, 402, 403, 407})
_NO_ROUTE = frozenset({404, 405})


@dataclass(frozen=True, slots=True)
class RelayTarget:
    """A model server: its name and address in messages, the headers for it, and the decoder of its errors."""

    http: HttpClient
    url: str
    kind: str
    headers: Mapping[str, str]
    decode_error: Callable[[str, int, Json, Mapping[str, str] | None], BackendError]


@dataclass(frozen=True, slots=True)
class ReadResponse:
    """`RawResponse` of an error whose body was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    async def pieces(self) -> AsyncIterator[bytes]:
        """See `RawResponse`."""
        if self.body:
            yield self.body


@asynccontextmanager
async def refuse_route(url: str, kind: str, call: RawCall) -> AsyncGenerator[RawResponse]:
    """Raise `RouteNotSupported` for a route that a kind of server never has."""
    raise RouteNotSupported(url, kind, call.method, call.route)
    yield  # pyright: ignore[reportUnreachable]  # makes it a generator


@asynccontextmanager
async def relay_call(target: RelayTarget, url: str, call: RawCall) -> AsyncGenerator[RawResponse]:
    """Send a request to `url` and yield the response. Raises like `RawRelay.relay`."""
    headers = {name: value for name, value in target.headers.items() if name != "Content-Type"}
    headers["Accept"] = "*/*"
    if call.content_type:
        headers["Content-Type"] = call.content_type
    address = f"{url}?{call.query}" if call.query else url
    seconds = _READ_SECONDS if call.is_read else None
    async with target.http.open(
        call.method, address, body=call.data or None, headers=headers, seconds=seconds
    ) as response:
        status = response.status
        if 200 <= status < 300:
            yield response
        elif unexpected := check_status(target.url, status, response.headers):
            raise unexpected
        else:
            body = await read_capped(response)
            _check_error(target, call, status, body, select_headers(response))
            yield ReadResponse(status, response.headers, body)


def _check_error(target: RelayTarget, call: RawCall, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    """Raise an error of the server that concerns the daemon and not the request."""
    error = target.decode_error(target.url, status, parse_body(body), headers)
    if status in _REFUSES_KEY:
        raise error
    # Ollama has all of its own routes: there, a 404 is about a model or a file.
    if status in _NO_ROUTE and not call.route.startswith("/api/") and not error.is_about_model:
        raise RouteNotSupported(target.url, target.kind, call.method, call.route)
