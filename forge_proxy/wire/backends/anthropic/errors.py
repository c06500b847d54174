"""What an error in Anthropic's dialect means: its type to the status it has, or would have had outside of a stream."""

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
"""As the service documents them, and as the SDK's `types/shared/error_type.py` lists the types."""


def status_of(body: Json) -> int:
    """The status of an error that came under another one; 502 for a type that is not known."""
    error = body.get("error") if is_object(body) else None
    kind = error.get("type") if is_object(error) else None
    return _STATUSES.get(kind, 502) if isinstance(kind, str) else 502
