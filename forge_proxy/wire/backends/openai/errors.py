"""Decodes errors of OpenAI-compatible servers to core errors: overflow, unparsed call, rejected request format."""

from __future__ import annotations

import re
from collections.abc import Mapping

from forge_proxy.core.backend_errors import (
    BackendError,
    ContextOverflow,
    LimitTooLarge,
    RequestFormatRejected,
    UnreadCall,
    error_message,
)
from forge_proxy.core.dialect import UnsupportedFeature
from forge_proxy.core.jsontypes import Json, is_object
from forge_proxy.wire.backends.openai.overflow import read_overflow

_OTHER_CAUSES = frozenset({401, 403, 404, 408, 409, 429, 503, 504})
"""Statuses whose cause is not the content of the request."""
_LONGEST = 4000
"""Characters of an error that are searched."""
# In order of precedence: some servers report a template that fails at a role as a failed grammar.
_NEEDS = {
    UnsupportedFeature.ALTERNATION: r"roles? must (?:strictly )?alternate|must alternate between",
    UnsupportedFeature.SYSTEM_FIRST: r"system (?:message|role|prompt)s?\b[^\n]{0,40}\b(?:beginning|first|start)\b"
    r"|only the first[^\n]{0,30}system",
    UnsupportedFeature.NO_SYSTEM: r"system (?:role|message|prompt)s? (?:is |are )?not supported|not support"
    r" (?:the )?system",
    UnsupportedFeature.NO_DEVELOPER: r"(?:unknown|unsupported|invalid|unexpected)[^\n]{0,40}\bdeveloper\b"
    r"|\bdeveloper\b[^\n]{0,40}\bnot\b|unexpected message role|'system', 'user', 'assistant'",
    UnsupportedFeature.CHOICE_IN_WORDS: r"\btool_choice\b[^\n]{0,40}\b(?:object|string)\b",
    UnsupportedFeature.USER_LAST: r"\bprefill\b|conversation must end with a user message",
    UnsupportedFeature.NO_TOOLS: r"\bnot support (?:tools|tool (?:use|calling)|function calling)|tools param"
    r" requires --jinja"
    r"|unsupported param: tools|requires --enable-auto-tool-choice|\btool (?:use|calling) is not (?:supported|enabled)",
    UnsupportedFeature.FREE_CHOICE: r"\btool_choice\b[^\n]{0,40}\bforces? tool use",
    UnsupportedFeature.NO_SAMPLING: r"\b(?:temperature|top_p|top_k)\b[^\n]{0,60}\b(?:deprecated|may only be"
    r"|support|both)",
    UnsupportedFeature.PLAIN_SCHEMAS: r"grammar|json.?schema|input_schema|schema conversion|failed to parse tools"
    r"|invalid schema for function|(?:invalid|unsupported) (?:regex|pattern|schema)|compile (?:the )?regex",
    UnsupportedFeature.UNCLEAR: r"jinja|chat.template|generate parser for this template|while executing \w+ at line",
}
_PATTERNS = tuple((need, re.compile(pattern, re.IGNORECASE)) for need, pattern in _NEEDS.items())
# llama.cpp; Ollama if its own parser fails (gpt-oss), or if llama-server forwarded invalid JSON
_CANNOT_PARSE = re.compile(
    r"failed to parse input at pos|error parsing tool call|returned invalid tool call arguments", re.IGNORECASE
)
_RAW_CALL = re.compile(r"error parsing tool call: raw='(.*)', err=", re.DOTALL)


def decode_error(url: str, status: int, body: Json, headers: Mapping[str, str] | None = None) -> BackendError:
    """Return the most specific error type for a response of the model server at `url`."""
    message = error_message(body)
    if is_unparsed_call(body):
        return UnreadCall(url, status, body, headers, written=extract_raw_call(body))
    if status in _OTHER_CAUSES:
        return BackendError(url, status, body, headers)
    if overflow := read_overflow(body, message):
        tokens, window = overflow.tokens, overflow.window
        if overflow.is_limit:
            return LimitTooLarge(url, status, body, headers, tokens=tokens, window=window, room=overflow.room)
        return ContextOverflow(url, status, body, headers, tokens=tokens, window=window)
    for need, pattern in _PATTERNS:
        if pattern.search(message, 0, _LONGEST):
            return RequestFormatRejected(url, status, body, headers, need=need)
    return BackendError(url, status, body, headers)


def is_unparsed_call(body: Json) -> bool:
    """Return whether a model server reports that it could not parse its model's call (llama.cpp, Ollama)."""
    return bool(_CANNOT_PARSE.search(_message(body)))


def extract_raw_call(body: Json) -> str:
    """Return the model's text, if such an error quotes it; else an empty string."""
    found = _RAW_CALL.search(_message(body))
    return found[1] if found else ""


def _message(body: Json) -> str:
    error = body.get("error") if is_object(body) else None
    message = error.get("message") if is_object(error) else error
    return message if isinstance(message, str) else ""
