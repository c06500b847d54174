"""What the adapters over HTTP have in common: how a request is written, and what a response means that is no answer.

This belongs in `backends` because it knows the HTTP responses that `backends.http` gives, and no dialect.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import orjson

from forge_proxy.backends.http import HttpResponse, RequestBody
from forge_proxy.core.chat import ModelCall
from forge_proxy.core.errors import (
    BackendBroke,
    BackendFault,
    InvalidRequest,
    ResponseTooDeep,
    ResponseTooLarge,
    UnexpectedStatus,
)
from forge_proxy.core.jsontypes import Json
from forge_proxy.wire.backends.responses import NestedTooDeeply, UnreadableResponse
from forge_proxy.wire.large_json import write_slices
from forge_proxy.wire.sse import TooLarge

OK = 200
KEPT_HEADERS = ("retry-after", "retry-after-ms")
"""What of the headers of an error is passed on. No other header of a model server is: cookies are between it and us."""


def without_credentials(url: str) -> str:
    """The URL without a user name and password, for messages and logs."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, _host_of(parts.netloc), parts.path.rstrip("/"), "", ""))


def authorization(url: str, api_key: str | None) -> dict[str, str]:
    """The `Authorization` header: the key, else the user name and password in the URL, else none."""
    if api_key is not None:
        return {"Authorization": f"Bearer {api_key}"}
    credentials, found, _ = urlsplit(url).netloc.rpartition("@")
    if not found:
        return {}
    user, _, password = credentials.partition(":")
    return {"Authorization": f"Basic {b64encode(f'{unquote(user)}:{unquote(password)}'.encode()).decode()}"}


def write_body(body: Mapping[str, Json]) -> bytes:
    """The bytes of an encoded call. Raises `InvalidRequest`: orjson reads JSON of 1,024 levels and writes 254.

    It is the client's own JSON that is so deep: what a model wrote is sent along as text (`readable_arguments`).
    """
    try:
        return orjson.dumps(body)
    except TypeError as exc:
        raise _too_deep() from exc


async def write_call(call: ModelCall, body: Mapping[str, Json]) -> RequestBody:
    """The same; a large body in slices, between which others have the event loop."""
    return await write_pieces(body) if call.request.is_large else write_body(body)


async def write_pieces(body: Mapping[str, Json], dumps: Callable[[Json], bytes] = orjson.dumps) -> list[bytes]:
    """The bytes of a large body in slices, with keys, strings and numbers as `dumps` writes them. Raises as
    `write_body`.
    """
    pieces: list[bytes] = []
    try:
        for piece in write_slices(body, dumps):
            pieces.append(piece)
            await asyncio.sleep(0)
    except TypeError as exc:
        raise _too_deep() from exc
    return pieces


def _too_deep() -> InvalidRequest:
    return InvalidRequest("body", "nested too deeply to be passed on; some 200 levels are the most")


def parsed(raw: bytes) -> Json:
    """A body as JSON, else as text."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return raw.decode("utf-8", "replace")


def kept_headers(response: HttpResponse) -> dict[str, str]:
    """The headers of an error that are passed on."""
    return {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}


def unexpected_status(url: str, status: int, headers: Mapping[str, str]) -> UnexpectedStatus | None:
    """What it means if a status is neither 200 nor that of an error; None if it is one of these."""
    if status == OK or 400 <= status < 600:
        return None
    if 300 <= status < 400:
        to = _redirected_to(url, headers.get("location"))
        return UnexpectedStatus(url, status, f"a redirect{to}, which is not followed; set backend.url to the address")
    if status < 300:
        return UnexpectedStatus(url, status, "an answer was expected, which has the status 200")
    return UnexpectedStatus(url, status, "which is no status of HTTP; check what answers at backend.url")


def unreadable(url: str, fault: UnreadableResponse | TooLarge, limit: int) -> BackendFault:
    """What it means that a response cannot be read on; `limit` is how many bytes of it may be held."""
    match fault:
        case TooLarge():
            return ResponseTooLarge(url, limit)
        case NestedTooDeeply():
            return ResponseTooDeep(url)
        case _:
            return BackendBroke(url, str(fault))


def _redirected_to(url: str, where: str | None) -> str:
    """Where a redirect leads, for its message; nothing if it does not say so in a way that can be read."""
    try:
        return f" to {without_credentials(urljoin(url, where))}" if where else ""
    except ValueError:
        return ""


def _host_of(netloc: str) -> str:
    return netloc.rpartition("@")[2]
