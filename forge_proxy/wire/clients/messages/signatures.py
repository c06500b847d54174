"""The signatures of thinking blocks.

Anthropic's API signs its reasoning, and clients send the signed blocks back unchanged. A local model's reasoning gets
an opaque signature of our own. It contains what the block does not show: reasoning that the client wants omitted, or
Anthropic's own signed blocks if they could not be sent as they were.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import blake2b

import orjson

from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object

_PREFIX = "forge-proxy.1."
"""Begins each signature; the number is the version of the format."""
_EMBEDS = "z."
_MAX_EMBEDDED = 8_000_000
"""Maximum decompressed bytes of a signature's content."""


@fast_dataclass
class SignedContent:
    """The content of a signature that the daemon created."""

    reasoning: str = ""
    """The reasoning of a block that does not show it."""
    blocks: tuple[JsonObject, ...] = ()
    """Anthropic's signed blocks."""


def sign_reasoning(reasoning: str) -> str:
    """Return the signature of a block that shows its reasoning."""
    return _PREFIX + blake2b(reasoning.encode("utf-8", "replace"), digest_size=16).hexdigest()


def embed_reasoning(reasoning: str) -> str:
    """Return the signature of a block that does not show its reasoning."""
    return _embed({"reasoning": reasoning})


def embed_blocks(blocks: Sequence[JsonObject]) -> str:
    """Return a signature that contains Anthropic's signed blocks."""
    return _embed({"blocks": [*blocks]})


def read_signature(signature: str) -> SignedContent | None:
    """Return the content of a signature of our own, empty if it is damaged; None for the signature of another API."""
    if not signature.startswith(_PREFIX):
        return None
    embedded = signature.removeprefix(_PREFIX)
    if not embedded.startswith(_EMBEDS):
        return SignedContent()
    try:
        packed = b64decode(embedded.removeprefix(_EMBEDS), validate=True)
        content: Json = orjson.loads(zlib.decompressobj().decompress(packed, _MAX_EMBEDDED))
    except (ValueError, zlib.error):
        return SignedContent()
    if not is_object(content):
        return SignedContent()
    reasoning, blocks = content.get("reasoning"), content.get("blocks")
    return SignedContent(
        reasoning if isinstance(reasoning, str) else "",
        tuple(block for block in blocks if is_object(block)) if is_list(blocks) else (),
    )


def _embed(content: JsonObject) -> str:
    return _PREFIX + _EMBEDS + b64encode(zlib.compress(orjson.dumps(content), 6)).decode()
