"""The ports of files and batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from forge_proxy.core.files import FilePurpose, StoredFile


class FileStore(Protocol):
    """Stores files. `store/files.py` has one for SQLite and PostgreSQL. All methods raise `StoreUnavailable`.

    Files of other owners, expired and incomplete ones are as if they did not exist.
    """

    async def create(self, file: StoredFile) -> None:
        """Create an incomplete file in place of one with the same id. Deletes what has expired."""
        ...

    async def append(self, file_id: str, position: int, blocks: Sequence[bytes]) -> None:
        """Store consecutive blocks, each of `core.files.BLOCK` bytes but the last one of the file.

        `position` is the number of blocks before them. Raises `StoredFileNotFound`.
        """
        ...

    async def complete(self, file: StoredFile) -> None:
        """Store the final record of a file, which is found from now on. Raises `StoredFileNotFound`."""
        ...

    async def discard(self, file_id: str) -> None:
        """Delete an incomplete file; does nothing if there is none."""
        ...

    async def get(self, file_id: str, owner: str, now: float) -> StoredFile:
        """Return a file. Raises `StoredFileNotFound`."""
        ...

    async def list(
        self, owner: str, now: float, purpose: FilePurpose | None, *, after: str | None, limit: int, newest_first: bool
    ) -> Sequence[StoredFile]:
        """Return files by their time of creation. Raises `StoredFileNotFound` for `after`."""
        ...

    async def read(self, file_id: str, position: int, count: int) -> Sequence[bytes]:
        """Return up to `count` blocks from `position` on."""
        ...

    async def keep(self, file_id: str, until: float) -> None:
        """Keep a file at least until then."""
        ...

    async def delete(self, file_id: str, owner: str, now: float) -> None:
        """Delete a file. Raises `StoredFileNotFound`."""
        ...


OpenFileStore: TypeAlias = Callable[[], Awaitable[FileStore]]


@dataclass(frozen=True, slots=True)
class LineRequest:
    """The request of one line."""

    endpoint: str
    body: bytes
    """JSON."""
    request_id: str
    owner: str
    """The client to which what the request stores belongs."""
    on_prompt: Callable[[], None]
    """Called when the model server has processed the prompt, if that is known before the response ends."""


LineFailure: TypeAlias = Literal["permanent", "transient", "unavailable"]
"""`transient` may succeed if it is sent again; `unavailable` will, once the model server or the store is back."""


@dataclass(frozen=True, slots=True)
class LineResponse:
    """A whole response. `failure` is None if the request succeeded."""

    status: int
    body: bytes
    failure: LineFailure | None = None


class LineExecutor(Protocol):
    """Answers requests like those of clients, as background work. `api/batch_lines.py` has one."""

    @property
    def endpoints(self) -> Collection[str]:
        """The paths of requests that have whole responses."""
        ...

    async def send(self, request: LineRequest) -> LineResponse:
        """Answer a request. Errors are responses, too."""
        ...
