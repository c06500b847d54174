"""Maps Anthropic's error types to HTTP statuses, for errors inside a stream."""

from __future__ import annotations

from forge_proxy.core.jsontypes import Json, is_object

_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""From the API documentation; the SDK lists the types in `types/shared/error_type.py`."""


def find_status(body: Json) -> int:
    """Return the status of an error object; 502 for an unknown type."""
    error = body.get("error") if is_object(body) else None
    kind = error.get("type") if is_object(error) else None
    return _STATUSES.get(kind, 502) if isinstance(kind, str) else 502
