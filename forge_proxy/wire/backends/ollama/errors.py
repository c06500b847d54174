"""What an error of Ollama's means, as our own types."""

from __future__ import annotations

import re
from collections.abc import Mapping

from forge_proxy.core.dialect import UnsupportedFeature
from forge_proxy.core.errors import (
    BackendError,
    RequestFormatRejected,
    ThinkingNotSupportedError,
    UnreadCall,
    error_message,
)
from forge_proxy.core.jsontypes import Json, is_integer, is_object, read_object
from forge_proxy.wire.backends.openai.rejections import read_fault

_LONGEST = 4000
"""Characters of an error that are looked at."""
_NOT_THERE = re.compile(r"model ['\"](?P<model>[^'\"]{1,200})['\"] not found")
_NO_THINKING = re.compile(r"does not support thinking")
_WRONG_OPTION = re.compile(r"option .{1,80} must be of (?:type|an array)")
_TEMPLATE = re.compile(r"template: .{0,80}: executing ")
_UNREAD_SCHEMA = re.compile(r"cannot unmarshal .{0,200}api\.(?:Tool|PropertyType)", re.DOTALL)


def read_error(url: str, status: int, body: Json, headers: Mapping[str, str] | None = None) -> BackendError:
    """The error of the Ollama at `url`, as the most telling type there is for it."""
    body = _unwrapped(body)
    words = error_message(body)[:_LONGEST]
    if status == 404 and (found := _NOT_THERE.search(words)):
        pull = f"{words}; `ollama pull {found['model']}` fetches it"
        inner: Json = {"message": pull, "type": "invalid_request_error", "code": "model_not_found"}
        return BackendError(url, status, {"error": inner}, headers)
    if _WRONG_OPTION.match(words):
        status = 400  # it says 500, as if it were worth trying again
    if status == 400 and _NO_THINKING.search(words):
        return ThinkingNotSupportedError(url, status, body, headers)
    if status >= 500 and _TEMPLATE.search(words):
        return RequestFormatRejected(url, status, body, headers, need=UnsupportedFeature.UNCLEAR)
    if status == 400 and _UNREAD_SCHEMA.search(words):
        return RequestFormatRejected(url, status, body, headers, need=UnsupportedFeature.PLAIN_SCHEMAS)
    return read_fault(url, status, body, headers)


def _unwrapped(body: Json) -> Json:
    """The error of the llama-server below, where Ollama hands on the JSON of that as the text of its own."""
    said = body.get("error") if is_object(body) else None
    inner = read_object(said) if isinstance(said, str) and said.startswith("{") else None
    return inner if inner is not None and "error" in inner else body


def status_in(body: Json) -> int:
    """The status that an error inside a stream would have had: newer versions and servers in front may tell it."""
    error = body.get("error") if is_object(body) else None
    told = (body.get("status") if is_object(body) else None, error.get("code") if is_object(error) else None)
    return next((code for code in told if is_integer(code) and 400 <= code < 600), 500)


def is_cut_call(error: BackendError) -> bool:
    """Whether it is that a call ended in the middle: as one does at the limit of completion tokens."""
    return isinstance(error, UnreadCall) and "unexpected end of JSON input" in error.server_message
