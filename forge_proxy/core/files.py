"""Files that clients upload and that batches write: their record, its limits and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.errors import ForgeError

FilePurpose: TypeAlias = Literal["batch", "batch_output", "user_data"]
PURPOSES: tuple[FilePurpose, ...] = ("batch", "batch_output", "user_data")
UPLOAD_PURPOSES: tuple[FilePurpose, ...] = ("batch", "user_data")
"""Purposes that a client may choose; only batches write `batch_output`."""
BLOCK = 64 * 1024
"""Bytes of a stored block, before it is compressed. The last one of a file may have fewer."""
_MAX_QUOTED = 80


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file without its content. Times are in seconds since 1970."""

    id: str
    owner: str
    filename: str
    purpose: FilePurpose
    size: int
    """Bytes."""
    created_at: float
    expires_at: float


class StoredFileNotFound(ForgeError):
    """This client has no file with that id, or it has expired."""

    def __init__(self, file_id: str) -> None:
        quoted = file_id if len(file_id) <= _MAX_QUOTED else f"{file_id[:_MAX_QUOTED]}…"
        super().__init__(f"no file {quoted!r} is stored for this key, or it has expired")


class FileTooLarge(ForgeError):
    """The file has more bytes than may be stored."""

    def __init__(self, limit_mb: int) -> None:
        super().__init__(f"file: larger than {limit_mb} MB (files.max_mb)")


class RangeNotSatisfiable(ForgeError):
    """The requested range begins after the end of the file."""

    def __init__(self, size: int) -> None:
        self.size = size
        super().__init__(f"range: the file has {size} bytes")
