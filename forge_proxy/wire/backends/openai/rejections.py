"""What a model server's error means, as our own types: an overflow, a call it could not read, a form it refuses."""

from __future__ import annotations

import re
from collections.abc import Mapping

from forge_proxy.core.dialect import UnsupportedFeature
from forge_proxy.core.errors import (
    BackendError,
    ContextOverflow,
    LimitTooLarge,
    RequestFormatRejected,
    UnreadCall,
    error_message,
)
from forge_proxy.core.jsontypes import Json
from forge_proxy.wire.backends.openai.errors import is_unread_call, written_in
from forge_proxy.wire.backends.openai.overflow import read_overflow

_NOT_OURS = frozenset({401, 403, 404, 408, 409, 429, 503, 504})
"""Statuses that say themselves what is the matter: it is not the request."""
_LONGEST = 4000
"""Characters of an error that are looked at."""
# In the order in which they are looked for: a template that fails at a role is reported as a grammar that failed.
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


def read_fault(url: str, status: int, body: Json, headers: Mapping[str, str] | None = None) -> BackendError:
    """The error of the model server at `url`, as the most telling type there is for it."""
    words = error_message(body)
    if is_unread_call(body):
        return UnreadCall(url, status, body, headers, written=written_in(body))
    if status in _NOT_OURS:
        return BackendError(url, status, body, headers)
    if overflow := read_overflow(body, words):
        tokens, window = overflow.tokens, overflow.window
        if overflow.limit:
            return LimitTooLarge(url, status, body, headers, tokens=tokens, window=window, room=overflow.room)
        return ContextOverflow(url, status, body, headers, tokens=tokens, window=window)
    for need, pattern in _PATTERNS:
        if pattern.search(words, 0, _LONGEST):
            return RequestFormatRejected(url, status, body, headers, need=need)
    return BackendError(url, status, body, headers)
