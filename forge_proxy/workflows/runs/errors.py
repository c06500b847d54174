"""Errors of stored runs, apart from those raised inside a run."""

from __future__ import annotations

from tenacity import retry_if_exception_type, retry_if_not_exception_type

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.store_errors import StoreInUse, StoreUnavailable

_MAX_QUOTED = 80
"""Maximum length of an id quoted in a message: it may be anything that a URL can contain."""


class RunNotFound(ForgeError):
    """No run with that id exists, or it was deleted."""

    def __init__(self, run_id: str) -> None:
        quoted = run_id if len(run_id) <= _MAX_QUOTED else f"{run_id[:_MAX_QUOTED]}…"
        super().__init__(f"no run {quoted!r} here")


class RunConflict(ForgeError):
    """The operation is not possible in the run's present state; nothing was changed."""


class RunNotReadable(ForgeError):
    """A stored run was written by another version and cannot be resumed."""


retry_if_store_may_return = retry_if_exception_type(StoreUnavailable) & retry_if_not_exception_type(StoreInUse)
"""Retry predicate: another daemon keeps the store for as long as it runs."""
