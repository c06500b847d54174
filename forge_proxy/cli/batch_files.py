"""Input files of `forge-proxy batches`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import Json, is_object


class NotABatchFile(ForgeError):
    """The file cannot be submitted."""


def read_endpoint(file: Path) -> str:
    """Return the `url` of the first line. Raises `NotABatchFile`."""
    try:
        with file.open("rb") as lines:
            first = next((line for line in lines if line.strip()), b"")
    except OSError as error:
        raise NotABatchFile(f"{file}: {error.strerror or error}") from error
    try:
        parsed: Json = json.loads(first) if first else None
    except ValueError as error:
        raise NotABatchFile(f"{file}: the first line is not JSON: {error}") from error
    url = parsed.get("url") if is_object(parsed) else None
    if not isinstance(url, str):
        raise NotABatchFile(f"{file}: expected lines with custom_id, method, url and body")
    return url


def save(pieces: Iterable[bytes], file: Path) -> None:
    """Write a file that is complete as soon as it exists. Raises `NotABatchFile` if it cannot be written."""
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("wb") as opened:
            for piece in pieces:
                opened.write(piece)
        part.replace(file)
    except OSError as error:
        raise NotABatchFile(f"{file}: {error.strerror or error}") from error


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
