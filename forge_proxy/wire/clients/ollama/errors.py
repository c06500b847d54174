"""The error object of Ollama's API."""

from __future__ import annotations

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.wire.clients.errors import ClassifiedError


def encode_error(error: ClassifiedError) -> JsonObject:
    """Return `{"error": message}`."""
    return {"error": error.message}
