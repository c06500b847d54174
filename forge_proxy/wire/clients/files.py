"""OpenAI's Files API: file objects and lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.files import PURPOSES, UPLOAD_PURPOSES, FilePurpose, StoredFile
from forge_proxy.core.jsontypes import JsonObject

_SECONDS = (3600, 2_592_000)
"""Limits of `expires_after`, the same as OpenAI's: an hour, 30 days."""


def encode_file(file: StoredFile) -> JsonObject:
    """Return the object of a file."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size,
        "created_at": int(file.created_at),
        "expires_at": int(file.expires_at),
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


def encode_page(objects: Sequence[JsonObject], *, has_more: bool) -> JsonObject:
    """Return a page of a list."""
    first, last = (objects[0]["id"], objects[-1]["id"]) if objects else (None, None)
    return {"object": "list", "data": [*objects], "first_id": first, "last_id": last, "has_more": has_more}


def read_upload_purpose(value: str | None) -> FilePurpose:
    """Return the purpose of an upload. Raises `InvalidRequest`."""
    if value not in UPLOAD_PURPOSES:
        raise InvalidRequest("purpose", f"expected {' or '.join(UPLOAD_PURPOSES)}")
    return value


def read_purpose_filter(value: str | None) -> FilePurpose | None:
    """Return the purpose that a list is limited to. Raises `InvalidRequest`."""
    if value is not None and value not in PURPOSES:
        raise InvalidRequest("purpose", f"expected one of {', '.join(PURPOSES)}")
    return value


def read_form_expiry(fields: Mapping[str, str]) -> int | None:
    """Return the seconds of `expires_after` in a form; None if it has none. Raises `InvalidRequest`."""
    anchor, seconds = fields.get("expires_after[anchor]"), fields.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return None
    is_number = seconds is not None and seconds.isdecimal() and seconds.isascii() and len(seconds) < 10
    return read_expiry(anchor, int(seconds) if is_number and seconds is not None else seconds)


def read_expiry(anchor: object, seconds: object) -> int:
    """Return the seconds of an `expires_after`. Raises `InvalidRequest`."""
    if anchor != "created_at":
        raise InvalidRequest("expires_after.anchor", "expected created_at")
    least, most = _SECONDS
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not least <= seconds <= most:
        raise InvalidRequest("expires_after.seconds", f"expected an integer from {least} to {most}")
    return seconds
