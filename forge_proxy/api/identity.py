"""The id of a request: the caller's own where it gives a usable one, so that both logs can be read side by side."""

from __future__ import annotations

import re
import uuid

from starlette.requests import Request

_USABLE = re.compile(r"[\x21-\x7e]{1,128}")


def request_id_of(request: Request) -> str:
    """The id under which this request is answered, logged and recorded."""
    given = request.headers.get("x-request-id")
    return given if given and _USABLE.fullmatch(given) else new_request_id()


def new_request_id() -> str:
    """An id of our own."""
    return f"req_{uuid.uuid4().hex}"
