"""Who asks, and the id of a request: the caller's own where usable, so that both logs can be read side by side."""

from __future__ import annotations

import hashlib
import random
import re

from starlette.requests import Request

_USABLE = re.compile(r"[\x21-\x7e]{1,128}")


def request_id_of(request: Request) -> str:
    """The id under which this request is answered, logged and recorded."""
    given = _header(request, b"x-request-id")
    return given if given and _USABLE.fullmatch(given) else new_request_id()


def new_request_id() -> str:
    """An id of our own: nothing is kept safe by its being hard to guess."""
    return f"req_{random.getrandbits(128):032x}"


def client_of(request: Request) -> str:
    """A label of the client who asks, by which it takes its turns: nothing can be learned from it.

    That is its key, at the address it comes from. Where no keys are checked many clients give the same made-up one; and
    one client has a connection for each request that is under way, so its port says nothing.
    """
    key = _header(request, b"authorization") or _header(request, b"x-api-key") or ""
    host = request.client.host if request.client else ""
    return hashlib.blake2b(f"{host} {key}".encode(), digest_size=8).hexdigest()


def _header(request: Request, name: bytes) -> str | None:
    headers: list[tuple[bytes, bytes]] = request.scope["headers"]
    return next((value.decode("latin-1") for key, value in headers if key == name), None)
