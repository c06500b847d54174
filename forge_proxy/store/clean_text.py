"""Text that every database accepts."""

from __future__ import annotations


def clean_text(text: str, limit: int) -> str:
    """Return the first `limit` characters, with a replacement for those that PostgreSQL rejects: NUL and surrogates."""
    return text[:limit].replace("\0", "\ufffd").encode(errors="replace").decode()
