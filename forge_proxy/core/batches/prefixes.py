"""How much of their prompts two requests have in common, without keeping the prompts.

A model server reuses what it has computed for the beginning of a prompt. The key of a prompt is a sequence of hashes of
its chunks: keys sort by their common prefixes, and take half a kilobyte for a prompt of any length.
"""

from __future__ import annotations

from hashlib import blake2b

import orjson

from forge_proxy.core.jsontypes import JsonObject

_FIELDS = (
    "system", "instructions", "tools", "messages", "input", "prompt", "input_prefix", "query", "content",
)  # fmt: skip
"""Fields of requests that become the prompt, in the order in which chat templates write them."""
_SMALL, _LARGE = 256, 2048
"""Bytes of a chunk: of the first 64 and of the others."""
_CHUNKS = 64
_HASH = 4
"""Bytes of a chunk's hash."""
_SHARED = 4
"""Chunks that two prompts share at least: reusing less saves less than a request costs."""


def compute_prefix_key(body: JsonObject) -> bytes:
    """Return the key of a request's prompt."""
    text = orjson.dumps([body[name] for name in _FIELDS if name in body])
    border = _SMALL * _CHUNKS
    starts = [(at, _SMALL) for at in range(0, min(len(text), border), _SMALL)]
    starts += [(at, _LARGE) for at in range(border, min(len(text), border + _LARGE * _CHUNKS), _LARGE)]
    return b"".join(blake2b(text[at : at + size], digest_size=_HASH).digest() for at, size in starts)


def have_common_prefix(one: bytes, other: bytes) -> bool:
    """Return whether two prompts share a prefix that is long, and at least half of the shorter one."""
    shorter = min(len(one), len(other)) // _HASH
    return shorter >= _SHARED and _count_shared(one, other) >= max(_SHARED, shorter // 2)


def _count_shared(one: bytes, other: bytes) -> int:
    length = min(len(one), len(other))
    at = 0
    while at < length and one[at : at + _HASH] == other[at : at + _HASH]:
        at += _HASH
    return at // _HASH
