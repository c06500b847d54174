"""Errors of the store, for everything that stores data: `store/` raises them, `api/errors.py` maps them to HTTP."""

from __future__ import annotations

from forge_proxy.core.errors import ForgeError


class StoreUnavailable(ForgeError):
    """The store cannot be read or written now. The message gives the reason and contains no stored data."""

    seconds = 5
    """Seconds after which a client may retry."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the store cannot be used: {why}")

    @property
    def summary(self) -> str:
        return str(self)


class StoreInUse(StoreUnavailable):
    """Another daemon uses the store. `place` is its file or database."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"another daemon uses {place}; a store serves one daemon at a time: set another store.url for this one"
        )


class StoreLocked(StoreUnavailable):
    """Another program has locked the database for longer than a write waits."""


class StoreFull(StoreUnavailable):
    """The disk of the database is full. Stored data can still be read."""


class StoreLost(StoreUnavailable):
    """The file of the database was deleted or replaced while it was in use."""
