"""The error object of OpenAI's API."""

from __future__ import annotations

from forge_proxy.core.jsontypes import JsonObject


def encode_error(message: str, kind: str, code: str | None, param: str | None = None) -> JsonObject:
    """Return `{"error": {message, type, param, code}}`."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
