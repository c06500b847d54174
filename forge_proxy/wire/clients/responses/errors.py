"""Errors of the Responses API: OpenAI's error object, and the `error` of a response that failed within its stream."""

from __future__ import annotations

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.wire.clients.chat_completions.errors import encode_error as encode_error
from forge_proxy.wire.clients.errors import ClassifiedError

_CODES = frozenset({"context_length_exceeded", "rate_limit_exceeded", "insufficient_quota", "invalid_prompt"})
"""Codes that clients act on. All others are `server_error`, which clients retry."""


def encode_failure(error: ClassifiedError) -> JsonObject:
    """Return the `error` of a failed response.

    Codex reads from the message of `rate_limit_exceeded` when to try again.
    """
    code = error.code if error.code in _CODES else None
    if code is None:
        code = "rate_limit_exceeded" if error.status == 429 else "server_error"
        code = "invalid_prompt" if error.status in (400, 413, 422) else code
    message = error.message
    seconds = error.headers.get("retry-after")
    if code == "rate_limit_exceeded" and seconds is not None:
        message = f"{message} (try again in {seconds}s)"
    return {"code": code, "message": message}
