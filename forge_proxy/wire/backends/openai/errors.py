"""Recognises the error with which a model server reports that it could not parse its model's call."""

from __future__ import annotations

import re

from forge_proxy.core.jsontypes import Json, is_object

# llama.cpp; Ollama where its own parser fails (gpt-oss), and where the JSON that llama-server handed on is none
_CANNOT_PARSE = re.compile(
    r"failed to parse input at pos|error parsing tool call|returned invalid tool call arguments", re.IGNORECASE
)
_WRITTEN = re.compile(r"error parsing tool call: raw='(.*)', err=", re.DOTALL)


def is_unread_call(body: Json) -> bool:
    """Whether a model server says that it could not read the call its own model wrote (llama.cpp, Ollama)."""
    return bool(_CANNOT_PARSE.search(_message(body)))


def written_in(body: Json) -> str:
    """What the model wrote, where the error that it could not be read quotes it; else nothing."""
    found = _WRITTEN.search(_message(body))
    return found[1] if found else ""


def _message(body: Json) -> str:
    error = body.get("error") if is_object(body) else None
    message = error.get("message") if is_object(error) else error
    return message if isinstance(message, str) else ""
