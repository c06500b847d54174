"""Errors of tasks that their submitter or a person can act on."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.backend_errors import BackendTimeout
from forge_proxy.core.errors import ForgeError


class RepositoryUnusable(ForgeError):
    """A task cannot work in the repository; the message states what to change."""

    @property
    def summary(self) -> str:
        return str(self)


class UnsafePath(ForgeError):
    """A path of a repository may not be read or written."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path!r}: {reason}")
        self.path = path
        self.reason = reason


class GitFailed(ForgeError):
    """A git command failed for a reason outside the task, such as a full disk or a lock that another program holds."""


class MergeConflict(ForgeError):
    """The branch of a task cannot be merged as it is; nothing was changed."""

    def __init__(self, reason: str, paths: Sequence[str] = ()) -> None:
        super().__init__(f"{reason}: {', '.join(paths)}" if paths else reason)
        self.paths = tuple(paths)


class CheckUnavailable(ForgeError):
    """A check cannot be run here; the message states what is missing."""


class BatchedRequestExpired(BackendTimeout):
    """The model server has not responded to the batched request of a task within its completion window."""

    def __init__(self, batch_id: str, seconds: float) -> None:
        super().__init__("", seconds)
        hours = f"{seconds / 3600:g} h (tasks.batch_hours)"
        self.args = (f"the batch {batch_id} has expired: the model server has not responded within {hours}",)
