"""Decodes Ollama's errors to core errors."""

from __future__ import annotations

import re
from collections.abc import Mapping

from forge_proxy.core.backend_errors import (
    BackendError,
    RequestFormatRejected,
    ThinkingNotSupportedError,
    UnreadCall,
    error_message,
)
from forge_proxy.core.dialect import UnsupportedFeature
from forge_proxy.core.jsontypes import Json, is_integer, is_object, read_object
from forge_proxy.wire.backends.openai.errors import decode_error

_LONGEST = 4000
"""Characters of an error that are searched."""
_NOT_FOUND = re.compile(r"model ['\"](?P<model>[^'\"]{1,200})['\"] not found")
_NO_THINKING = re.compile(r"does not support thinking")
_WRONG_OPTION = re.compile(r"option .{1,80} must be of (?:type|an array)")
_TEMPLATE = re.compile(r"template: .{0,80}: executing ")
_UNSUPPORTED_SCHEMA = re.compile(r"cannot unmarshal .{0,200}api\.(?:Tool|PropertyType)", re.DOTALL)


def decode_ollama_error(url: str, status: int, body: Json, headers: Mapping[str, str] | None = None) -> BackendError:
    """Return the most specific error type for a response of the Ollama at `url`."""
    body = _unwrap(body)
    message = error_message(body)[:_LONGEST]
    if status == 404 and (found := _NOT_FOUND.search(message)):
        pull = f"{message}; `ollama pull {found['model']}` fetches it"
        inner: Json = {"message": pull, "type": "invalid_request_error", "code": "model_not_found"}
        return BackendError(url, status, {"error": inner}, headers)
    if _WRONG_OPTION.match(message):
        status = 400  # Ollama sends 500, which clients would retry
    if status == 400 and _NO_THINKING.search(message):
        return ThinkingNotSupportedError(url, status, body, headers)
    if status >= 500 and _TEMPLATE.search(message):
        return RequestFormatRejected(url, status, body, headers, need=UnsupportedFeature.UNCLEAR)
    if status == 400 and _UNSUPPORTED_SCHEMA.search(message):
        return RequestFormatRejected(url, status, body, headers, need=UnsupportedFeature.PLAIN_SCHEMAS)
    return decode_error(url, status, body, headers)


def _unwrap(body: Json) -> Json:
    """Return the error of Ollama's own llama-server, if Ollama forwards its JSON as the text of an error."""
    error = body.get("error") if is_object(body) else None
    inner = read_object(error) if isinstance(error, str) and error.startswith("{") else None
    return inner if inner is not None and "error" in inner else body


def find_status(body: Json) -> int:
    """Return the status for an error inside a stream, which newer versions and reverse proxies include; else 500."""
    error = body.get("error") if is_object(body) else None
    codes = (body.get("status") if is_object(body) else None, error.get("code") if is_object(error) else None)
    return next((code for code in codes if is_integer(code) and 400 <= code < 600), 500)


def is_cut_call(error: BackendError) -> bool:
    """Return whether Ollama could not parse a call that was cut off, usually by the limit of completion tokens."""
    return isinstance(error, UnreadCall) and "unexpected end of JSON input" in error.server_message
