"""Identifies clients and requests. A client's own request id is used if valid, so that both logs can be compared."""

from __future__ import annotations

import hashlib
import random
import re

from starlette.requests import Request

from forge_proxy.core.background import read_priority
from forge_proxy.core.requests.records import RequestOrigin
from forge_proxy.engine.request_context import REQUEST_ID

_SCHEME = re.compile(r"bearer +", re.IGNORECASE)
_USABLE = re.compile(r"[\x21-\x7e]{1,128}")
_PRODUCT = re.compile(r"[A-Za-z0-9][\w.+@-]{0,40}(?:/[\w.+-]{1,40})?", re.ASCII)
_REQUEST_ID = "forge_proxy.request_id"
"""The key of the id of a request in its ASGI scope: a generated id must be the same everywhere."""
_MAX_TRACEPARENT = 256
KEY_LABEL = "forge_proxy.key_label"
"""The key of the label of the API key in the ASGI scope of a request."""
OWNER = "forge_proxy.owner"
"""The key of the owner of a batch in the ASGI scope of one of its lines, which has no API key."""
ON_PROMPT = "forge_proxy.on_prompt"
"""The key of a function in the ASGI scope of a batch's line. It is called once the prompt has been processed."""


def request_id_of(request: Request) -> str:
    """Return the id of a request, for its response, the log and the records."""
    known: str | None = request.scope.get(_REQUEST_ID)
    if known is not None:
        return known
    given = _header(request, b"x-request-id")
    request_id = request.scope[_REQUEST_ID] = given if given and _USABLE.fullmatch(given) else new_request_id()
    REQUEST_ID.set(request_id)
    return request_id


def new_request_id() -> str:
    """Return a new id. It is not a secret: it need not be hard to guess."""
    return f"req_{random.getrandbits(128):032x}"


def client_of(request: Request) -> str:
    """Return a label of the client, by which slots are shared fairly. It reveals nothing about the client.

    It combines the key and the address: without key checks many clients send the same placeholder key. The port is
    not part of it, since a client has a connection for each running request.
    """
    key = _header(request, b"authorization") or _header(request, b"x-api-key") or ""
    host = request.client.host if request.client else ""
    return hashlib.blake2b(f"{host} {key}".encode(), digest_size=8).hexdigest()


def owner_of(request: Request) -> str:
    """Return a label of the client's key, which owns what is stored for it; the same for all clients without a key."""
    if (owner := request.scope.get(OWNER)) is not None:
        return owner
    key = _header(request, b"authorization") or _header(request, b"x-api-key") or ""
    return hashlib.sha256(_SCHEME.sub("", key).encode()).hexdigest()


def origin_of(request: Request, surface: str, service_tier: object = None) -> RequestOrigin:
    """Return where a request came from: the label of its key, and the first product of its `user-agent`.

    Raises `InvalidRequest` for an unknown priority.
    """
    product = _PRODUCT.match(_header(request, b"user-agent") or "")
    priority = read_priority(_header(request, b"x-forge-priority"), service_tier)
    traceparent = (_header(request, b"traceparent") or "")[:_MAX_TRACEPARENT]
    return RequestOrigin(
        surface, request.scope.get(KEY_LABEL, ""), product[0] if product else "", priority, traceparent
    )


def _header(request: Request, name: bytes) -> str | None:
    headers: list[tuple[bytes, bytes]] = request.scope["headers"]
    return next((value.decode("latin-1") for key, value in headers if key == name), None)
