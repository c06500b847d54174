"""The error object of OpenAI's API."""

from __future__ import annotations

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.wire.clients.errors import ClassifiedError


def encode_error(error: ClassifiedError) -> JsonObject:
    """Return `{"error": {message, type, param, code}}`."""
    return {"error": {"message": error.message, "type": error.kind, "param": error.param, "code": error.code}}
