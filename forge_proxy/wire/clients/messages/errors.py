"""The error object of Anthropic's API, and the error that only this API has."""

from __future__ import annotations

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.wire.clients.errors import ClassifiedError

_KINDS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""The type by the status. Others below 500 are `invalid_request_error`, others from 500 on `api_error`."""
_OVERFLOW = "context_length_exceeded"
_NO_THREADS = "thread_unsupported_request"
"""The code by which the SDK's tool runner learns to send the whole conversation."""


class ThreadsNotSupported(InvalidRequest):
    """The client expects a Messages server to store the conversation. If an error reports that,
    it sends the whole conversation."""

    def __init__(self) -> None:
        super().__init__("thread", "the daemon does not store conversations; send the whole conversation without it")


def encode_error(error: ClassifiedError) -> JsonObject:
    """Return `{"type": "error", "error": {type, message}, "request_id"}`."""
    kind = _KINDS.get(error.status) or ("invalid_request_error" if error.status < 500 else "api_error")
    body: dict[str, Json] = {"type": kind, "message": _message(error)}
    if error.code == _NO_THREADS:
        body["details"] = {"error_code": error.code}
    return {"type": "error", "error": body, "request_id": error.request_id}


def _message(error: ClassifiedError) -> str:
    """Return the message; of a prompt that is too long, the text that makes clients compact."""
    if error.code != _OVERFLOW or error.message.startswith("prompt is too long"):
        return error.message
    tokens, window = error.prompt_tokens, error.window
    if tokens is None or window is None or tokens <= window:
        return f"prompt is too long: {error.message}"
    return f"prompt is too long: {tokens} tokens > {window} maximum"
