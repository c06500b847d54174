"""Masks secrets in settings: API keys, passwords in URLs, and the values of flags such as `--api-key`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.settings import Settings

_MASK = "**********"
_SECRET_FLAG = re.compile(r"-.*(?:key|token|secret|passw|auth|credential|header)", re.IGNORECASE)
_ARGUMENT_LISTS = ("extra", "args")


def mask_secrets(settings: Settings) -> JsonObject:
    """Return the settings as JSON with secrets masked."""
    values = _mask(settings.model_dump(mode="json", by_alias=True))
    assert is_object(values)  # noqa: S101  # `_mask` keeps objects
    return values


def without_secrets(url: str) -> str:
    """Return a URL without user name, password and query values."""
    try:
        parts = urlsplit(url)
        query = re.sub(r"=[^&]*", f"={_MASK}", parts.query)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), query, ""))
    except ValueError:
        return _MASK


def _mask(value: Json, name: str = "") -> Json:
    if is_object(value):
        return {key: _mask(inner, key) for key, inner in value.items()}
    if is_list(value):
        words = [_mask(inner) for inner in value]
        return _mask_words(words) if name in _ARGUMENT_LISTS else words
    return without_secrets(value) if isinstance(value, str) and "://" in value else value


def _mask_words(words: Sequence[Json]) -> list[Json]:
    """Mask the values of secret flags in a program's arguments, as `--flag value` or `--flag=value`."""
    masked: list[Json] = []
    hides_next = False
    for word in words:
        text = str(word)
        flag, equals, _ = text.partition("=")
        is_secret = _SECRET_FLAG.match(flag) is not None
        if hides_next and not text.startswith("-"):
            masked.append(_MASK)
        elif is_secret and equals:
            masked.append(f"{flag}={_MASK}")
        else:
            masked.append(word)
        hides_next = is_secret and not equals
    return masked
