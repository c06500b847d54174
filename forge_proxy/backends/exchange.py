"""Shared parts of the HTTP adapters: URLs, headers, request bodies, and errors for responses other than 200.

This belongs in `backends` because it handles HTTP responses (`backends.http`); it parses no protocol.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import orjson

from forge_proxy.backends.http import HttpResponse, RequestBody
from forge_proxy.core.backend_errors import (
    BackendBroke,
    BackendFault,
    ResponseTooDeep,
    ResponseTooLarge,
    UnexpectedStatus,
)
from forge_proxy.core.chat import ModelCall
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json
from forge_proxy.wire.backends.responses import NestedTooDeeply, UnreadableResponse
from forge_proxy.wire.large_json import write_slices
from forge_proxy.wire.sse import TooLarge

OK = 200
KEPT_HEADERS = ("retry-after", "retry-after-ms")
"""Headers of an error response that are forwarded to the client. Others, such as cookies, are not."""


def strip_credentials(url: str) -> str:
    """Return the URL without user name and password, for messages and logs."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, _host_of(parts.netloc), parts.path.rstrip("/"), "", ""))


def authorization_header(url: str, api_key: str | None) -> dict[str, str]:
    """Return the `Authorization` header: the key, else the user name and password in the URL, else none."""
    if api_key is not None:
        return {"Authorization": f"Bearer {api_key}"}
    credentials, found, _ = urlsplit(url).netloc.rpartition("@")
    if not found:
        return {}
    user, _, password = credentials.partition(":")
    return {"Authorization": f"Basic {b64encode(f'{unquote(user)}:{unquote(password)}'.encode()).decode()}"}


def trace_headers(headers: Mapping[str, str], call: ModelCall) -> Mapping[str, str]:
    """Return the headers of a call: with its position in a trace, if it has one."""
    return {**headers, "traceparent": call.traceparent} if call.traceparent else headers


def write_body(body: Mapping[str, Json]) -> bytes:
    """Serialize an encoded call. Raises `InvalidRequest` if it is nested deeper than the 254 levels of orjson.

    Only the client's own JSON can be that deep: arguments written by a model are sent as text (`to_arguments_object`).
    """
    try:
        return orjson.dumps(body)
    except TypeError as exc:
        raise _too_deep() from exc


async def write_call(call: ModelCall, body: Mapping[str, Json]) -> RequestBody:
    """The same as `write_body`; a large body in slices, between which other tasks use the event loop."""
    return await write_pieces(body) if call.request.is_large else write_body(body)


async def write_pieces(body: Mapping[str, Json], dumps: Callable[[Json], bytes] = orjson.dumps) -> list[bytes]:
    """Serialize a large body in slices, with keys, strings and numbers by `dumps`. Raises like `write_body`."""
    pieces: list[bytes] = []
    try:
        for piece in write_slices(body, dumps):
            pieces.append(piece)
            await asyncio.sleep(0)
    except TypeError as exc:
        raise _too_deep() from exc
    return pieces


def _too_deep() -> InvalidRequest:
    return InvalidRequest("body", "nested too deeply to be forwarded; the limit is about 200 levels")


def parse_body(raw: bytes) -> Json:
    """Return a body as JSON, or as text if it is not valid JSON."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return raw.decode("utf-8", "replace")


def select_headers(response: HttpResponse) -> dict[str, str]:
    """Return the headers of an error response that are forwarded to the client."""
    return {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}


def check_status(url: str, status: int, headers: Mapping[str, str]) -> UnexpectedStatus | None:
    """Return an error for a status other than 200, 4xx and 5xx; else None."""
    if status == OK or 400 <= status < 600:
        return None
    if 300 <= status < 400:
        to = _describe_redirect(url, headers.get("location"))
        return UnexpectedStatus(url, status, f"a redirect{to}, which is not followed; set backend.url to the address")
    if status < 300:
        return UnexpectedStatus(url, status, "expected the status 200")
    return UnexpectedStatus(url, status, "which is not an HTTP status; check what responds at backend.url")


def to_fault(url: str, fault: UnreadableResponse | TooLarge, limit: int) -> BackendFault:
    """Return the error for an unreadable response. `limit` is the maximum of buffered bytes."""
    match fault:
        case TooLarge():
            return ResponseTooLarge(url, limit)
        case NestedTooDeeply():
            return ResponseTooDeep(url)
        case _:
            return BackendBroke(url, str(fault))


def _describe_redirect(url: str, where: str | None) -> str:
    """Return " to URL" for the message about a redirect; empty if the location is missing or invalid."""
    try:
        return f" to {strip_credentials(urljoin(url, where))}" if where else ""
    except ValueError:
        return ""


def _host_of(netloc: str) -> str:
    return netloc.rpartition("@")[2]
