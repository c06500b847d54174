"""Packs a long text into a short one and documents. A job's state grows at its end, as a conversation does: all full
parts of the text before are parts of the text after, and are not stored again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from forge_proxy.core.jobs.errors import JobLimitExceeded, JobNotReadable
from forge_proxy.core.jobs.limits import MAX_STATE_BYTES
from forge_proxy.core.jobs.records import Document

_PART_BYTES = 64 * 1024
"""The size of a part: a step of a long conversation writes at most twice that. Compression gains little beyond it."""
_PREFIX = '{"parts":['


@dataclass(frozen=True, slots=True)
class PackedText:
    """A text of at most `MAX_STATE_BYTES`, and the parts it refers to."""

    text: str
    parts: tuple[Document, ...]


def pack(text: str) -> PackedText:
    """Pack a JSON text that does not begin with `{"parts":[`. Raises `JobLimitExceeded` beyond some 200 MB."""
    content = text.encode()
    if len(content) <= _PART_BYTES:
        return PackedText(text, ())
    full = len(content) - len(content) % _PART_BYTES
    parts = [Document(content[start : start + _PART_BYTES]) for start in range(0, full, _PART_BYTES)]
    rest = Document(content[full:])
    packed = orjson.dumps({"parts": [part.digest for part in (*parts, rest)]}).decode()
    if len(packed) > MAX_STATE_BYTES:
        raise JobLimitExceeded(f"a state of {len(content)} bytes is too long to be stored")
    return PackedText(packed, (*parts, rest))


def list_digests(packed: str) -> tuple[str, ...]:
    """Return the digests of the documents that a packed text refers to, in order."""
    return tuple(orjson.loads(packed)["parts"]) if packed.startswith(_PREFIX) else ()


def unpack(packed: str, documents: Mapping[str, bytes]) -> str:
    """Return the text. Raises `JobNotReadable` if a document is missing."""
    digests = list_digests(packed)
    if not digests:
        return packed
    try:
        return b"".join(documents[digest] for digest in digests).decode()
    except KeyError as error:
        raise JobNotReadable("a part of the stored state is missing") from error
