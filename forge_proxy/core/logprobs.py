"""The log probabilities of a choice, as JSON text instead of parsed values.

Log probabilities are forwarded, never read. Parsed, those of 20,000 tokens are some 100,000 objects, or two million
with 20 alternatives for each token, and each garbage collection that visits them blocks the event loop. Bytes are not
visited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO

import orjson

from forge_proxy.core.jsontypes import Json, is_list, is_object


@dataclass(frozen=True, slots=True)
class LogProbs:
    """An object of lists, with an entry for each token: `content` and `refusal`."""

    lists: Mapping[str, bytes | None]
    """The JSON text of the items of each list, separated by commas; None for null."""

    def encode(self) -> bytes:
        """Return the object as JSON text. The items, which may be many megabytes, are copied once."""
        parts: list[bytes] = []
        for name, items in self.lists.items():
            parts += [b"," if parts else b"{", orjson.dumps(name)]
            parts += [b":null"] if items is None else [b":[", items, b"]"]
        return b"".join([*parts, b"}"]) if parts else b"{}"


def read_logprobs(value: Json) -> LogProbs | None:
    """Return parsed log probabilities as text; None if `value` is not an object of lists."""
    if not is_object(value) or not all(items is None or is_list(items) for items in value.values()):
        return None
    try:
        return LogProbs({name: items if items is None else orjson.dumps(items)[1:-1] for name, items in value.items()})
    except TypeError:  # nested too deeply to be serialized
        return None


class LogProbsBuilder:
    """Concatenates the lists of log probabilities."""

    def __init__(self) -> None:
        self._lists: dict[str, BytesIO | None] = {}
        self._has_begun = False

    def add(self, piece: LogProbs) -> None:
        """Add the log probabilities of the next tokens."""
        self._has_begun = True
        for name, items in piece.lists.items():
            buffer = self._lists.get(name)
            if items is None:
                self._lists[name] = buffer
                continue
            if buffer is None:
                buffer = self._lists[name] = BytesIO()
            if items and buffer.tell():
                buffer.write(b",")
            buffer.write(items)

    def logprobs(self) -> LogProbs | None:
        """Return the log probabilities added so far; None if there were none."""
        if not self._has_begun:
            return None
        return LogProbs({name: buffer and buffer.getvalue() for name, buffer in self._lists.items()})
