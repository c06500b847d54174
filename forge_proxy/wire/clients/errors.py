"""An error as every client API can express it. `api/errors.py` classifies; each API's codec encodes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class ClassifiedError(NamedTuple):
    """An error in neutral terms, without the JSON that a client API puts around it."""

    status: int
    """The HTTP status; within a stream, which has begun with 200, it only classifies."""
    kind: str
    """`invalid_request_error`, `rate_limit_error` or `server_error`, as in OpenAI's API, or the model server's type."""
    code: str | None
    """A stable name for programs, such as `context_length_exceeded`."""
    message: str
    param: str | None = None
    """The path of the invalid field, such as `messages[3].content`."""
    headers: Mapping[str, str] = MappingProxyType({})
    """Response headers that go with the error in every API, such as `retry-after`."""
    request_id: str | None = None
    """The id of the request, for APIs whose error objects contain it."""
    prompt_tokens: int | None = None
    """Tokens of a prompt that is too long, if they are known."""
    window: int | None = None
    """The tokens that such a prompt may have."""
