"""What can go wrong with stored runs, beside what goes wrong inside of one."""

from __future__ import annotations

from forge_proxy.core.errors import ForgeError

_SHOWN = 80
"""Characters of an id that a message quotes: it may be anything that a URL can hold."""


class RunNotFound(ForgeError):
    """There is no run with that id, or not any more."""

    def __init__(self, run_id: str) -> None:
        shown = run_id if len(run_id) <= _SHOWN else f"{run_id[:_SHOWN]}…"
        super().__init__(f"no run {shown!r} here")


class RunConflict(ForgeError):
    """The run is not in a state for that; nothing was changed."""


class StoreUnavailable(ForgeError):
    """What is stored cannot be read or written now. The message says why, and holds nothing that is stored."""

    seconds = 5
    """After which a request may be sent again."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the store of runs cannot be used: {why}")

    @property
    def summary(self) -> str:
        return str(self)


class StoreInUse(StoreUnavailable):
    """Another daemon has the store."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"another daemon has {place}; a store has one at a time, so set another store.url for this one"
        )


class NotReadable(ForgeError):
    """What is stored of a run was written by another version, and cannot be gone on with."""


class ToolUnusable(ForgeError):
    """What is to execute a tool cannot be used now, so that nothing is known of the tool."""

    @property
    def summary(self) -> str:
        return str(self)
