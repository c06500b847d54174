"""The `encrypted_content` of reasoning items: the model's reasoning, for the client to send back with the next request.

It is not secret from the client, which also receives the reasoning itself: the encoding is opaque so that clients treat
it as one value, and versioned so that a later daemon recognizes it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode

_VERSION = "forge1."


def encode_reasoning(text: str) -> str:
    """Return reasoning as `encrypted_content`."""
    return _VERSION + b64encode(text.encode("utf-8", "surrogatepass")).decode()


def decode_reasoning(content: str) -> str | None:
    """Return the reasoning in `encrypted_content`; None if another service made it."""
    if not content.startswith(_VERSION):
        return None
    try:
        return b64decode(content[len(_VERSION) :], validate=True).decode("utf-8", "surrogatepass")
    except ValueError:
        return None
