"""Errors of stored runs, apart from those raised inside a run."""

from __future__ import annotations

from tenacity import retry_if_exception_type, retry_if_not_exception_type

from forge_proxy.core.errors import ForgeError

_MAX_QUOTED = 80
"""Maximum length of an id quoted in a message: it may be anything that a URL can contain."""


class RunNotFound(ForgeError):
    """No run with that id exists, or it was deleted."""

    def __init__(self, run_id: str) -> None:
        quoted = run_id if len(run_id) <= _MAX_QUOTED else f"{run_id[:_MAX_QUOTED]}…"
        super().__init__(f"no run {quoted!r} here")


class RunConflict(ForgeError):
    """The operation is not possible in the run's present state; nothing was changed."""


class StoreUnavailable(ForgeError):
    """The store cannot be read or written now. The message gives the reason and contains no stored data."""

    seconds = 5
    """Seconds after which a client may retry."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the store of runs cannot be used: {why}")

    @property
    def summary(self) -> str:
        return str(self)


class StoreInUse(StoreUnavailable):
    """Another daemon uses the store."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"another daemon uses {place}; a store serves one daemon at a time: set another store.url for this one"
        )


retry_if_store_may_return = retry_if_exception_type(StoreUnavailable) & retry_if_not_exception_type(StoreInUse)
"""Retry predicate: another daemon keeps the store for as long as it runs."""


class NotReadable(ForgeError):
    """A stored run was written by another version and cannot be resumed."""


class ToolUnusable(ForgeError):
    """The executor of a tool is unavailable, so the tool's declaration cannot be resolved."""

    @property
    def summary(self) -> str:
        return str(self)
