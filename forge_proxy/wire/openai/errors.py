"""The OpenAI shape of an error, and what a model server's own error means."""

from __future__ import annotations

import re

from forge_proxy.core.jsontypes import Json, JsonObject, is_object


def encode_error(message: str, kind: str, code: str | None, param: str | None = None) -> JsonObject:
    """`{"error": {message, type, param, code}}`."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


_CANNOT_PARSE = re.compile(r"failed to parse input at pos|error parsing tool call", re.IGNORECASE)


def is_unread_call(body: Json) -> bool:
    """Whether a model server says that it could not read the call its own model wrote (llama.cpp, Ollama)."""
    error = body.get("error") if is_object(body) else None
    message = error.get("message") if is_object(error) else error
    return isinstance(message, str) and bool(_CANNOT_PARSE.search(message))
