"""What of a model server's error text may be logged: servers quote the prompt in their errors, and a log holds none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object

_LONGEST = 200
"""Characters of an error text that are logged."""
_BLOCK = 18
"""Characters in a row that the error text must not share with the request. English words of one's own are rarely so
long the same; of what is quoted without quotation marks fewer than `_BLOCK` + `_STRIDE` characters may remain.
"""
_STRIDE = 6
_MOST = 1_000_000
"""Characters of a request that are compared: in a larger one nothing could be found in a few milliseconds."""
_QUOTED = re.compile(r"\"[^\"]*(?:\"|\Z)|(?<!\w)'[^']*(?:'|\Z)|`[^`]*(?:`|\Z)")
_PLAIN_NAME = re.compile(r".[\w.\[\]-]{1,40}.\Z")
_DUMP = re.compile(r"[{\n]|<\|")
"""Where an error text begins to print a request, or a prompt."""


def redact_quotes(words: str, body: JsonObject) -> str:
    """One line of an error text, without what it quotes of the request `body`; `""` if nothing can be shown."""
    words = words.strip()
    line = _DUMP.split(words, maxsplit=1)[0][: 2 * _LONGEST]
    texts: list[str] = []
    size = 0
    for text in _texts_in(body):
        size += len(text)
        if size > _MOST:
            return ""
        texts.append(text)

    def hide(quoted: re.Match[str]) -> str:
        inner = quoted.group()
        named = _PLAIN_NAME.match(inner) and not any(inner[1:-1] in text for text in texts)
        return inner if named else "…"

    is_whole = len(line) == len(words)
    line = _QUOTED.sub(hide, line)
    end = min((_begin_of_quote(line, text) for text in texts), default=len(line))
    shown = line[: min(end, _LONGEST)].rstrip()
    is_all = is_whole and len(shown) == len(line)
    return shown if is_all or not shown or shown.endswith("…") else f"{shown}…"


def _begin_of_quote(line: str, text: str) -> int:
    """The place before which a line quotes nothing of a text; its length if it quotes nothing at all."""
    short = text.strip()
    if 2 < len(short) < _BLOCK + _STRIDE:
        place = line.find(short)
        return place if place >= 0 else len(line)
    for start in range(0, len(line) - _BLOCK + 1, _STRIDE):
        if line[start : start + _BLOCK] in text:
            return max(0, start - _STRIDE + 1)
    return len(line)


def _texts_in(body: JsonObject) -> Iterator[str]:
    """What a client wrote: the texts of its messages, of calls in them, and the descriptions of its tools."""
    waiting: list[tuple[str, Json]] = [(name, body.get(name)) for name in ("messages", "tools", "prompt", "system")]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, str):
            if name not in ("role", "type", "id", "tool_call_id"):
                yield value
        elif is_object(value):
            waiting += value.items()
        elif is_list(value):
            waiting += [(name, item) for item in value]
