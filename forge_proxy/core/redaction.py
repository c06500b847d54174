"""Redacts the error messages of model servers for logs: servers quote prompts, and logs must not contain any."""

from __future__ import annotations

import re
from collections.abc import Iterator

from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object

_LONGEST = 200
"""Maximum characters of an error message in a log."""
_BLOCK = 18
"""Consecutive characters that the logged message must not share with the request. Unrelated English sentences rarely
share that many. Of a quotation without quotation marks, fewer than `_BLOCK` + `_STRIDE` characters may remain.
"""
_STRIDE = 6
_MOST = 1_000_000
"""Maximum characters of a request to compare with: a larger one would take more than a few milliseconds."""
_QUOTED = re.compile(r"\"[^\"]*(?:\"|\Z)|(?<!\w)'[^']*(?:'|\Z)|`[^`]*(?:`|\Z)")
_PLAIN_NAME = re.compile(r".[\w.\[\]-]{1,40}.\Z")
_DUMP = re.compile(r"[{\n]|<\|")
"""The start of a printed request or prompt in an error message."""


def redact_quotes(message: str, body: JsonObject) -> str:
    """Return one line of an error message without quotations of the request `body`; `""` if nothing may be logged."""
    message = message.strip()
    line = _DUMP.split(message, maxsplit=1)[0][: 2 * _LONGEST]
    texts: list[str] = []
    size = 0
    for text in _texts_in(body):
        size += len(text)
        if size > _MOST:
            return ""
        texts.append(text)

    def hide(quoted: re.Match[str]) -> str:
        inner = quoted.group()
        is_name = _PLAIN_NAME.match(inner) and not any(inner[1:-1] in text for text in texts)
        return inner if is_name else "…"

    is_whole = len(line) == len(message)
    line = _QUOTED.sub(hide, line)
    end = min((_find_quotation(line, text) for text in texts), default=len(line))
    redacted = line[: min(end, _LONGEST)].rstrip()
    is_complete = is_whole and len(redacted) == len(line)
    return redacted if is_complete or not redacted or redacted.endswith("…") else f"{redacted}…"


def _find_quotation(line: str, text: str) -> int:
    """Return the index before which a line quotes nothing of a text; its length if it quotes nothing."""
    short = text.strip()
    if 2 < len(short) < _BLOCK + _STRIDE:
        start = line.find(short)
        return start if start >= 0 else len(line)
    for start in range(0, len(line) - _BLOCK + 1, _STRIDE):
        if line[start : start + _BLOCK] in text:
            return max(0, start - _STRIDE + 1)
    return len(line)


def _texts_in(body: JsonObject) -> Iterator[str]:
    """Yield the strings that the client wrote: in messages, in calls, and in the descriptions of tools."""
    pending: list[tuple[str, Json]] = [(name, body.get(name)) for name in ("messages", "tools", "prompt", "system")]
    while pending:
        name, value = pending.pop()
        if isinstance(value, str):
            if name not in ("role", "type", "id", "tool_call_id"):
                yield value
        elif is_object(value):
            pending += value.items()
        elif is_list(value):
            pending += [(name, item) for item in value]
