"""The interfaces that the admin API needs from other packages. `daemon` provides it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import JsonObject

ServerStateName = Literal["starting", "loading", "ready", "draining", "stopped", "asleep", "crash-loop", "failed"]


class NotManaged(ForgeError):
    """The model server is not managed: the daemon cannot start, stop or restart it and has no log of it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"this backend is not managed by forge-proxy: {reason}")

    @property
    def summary(self) -> str:
        return str(self)


class WrongSettings(ForgeError):
    """The reloaded settings are invalid. The previous ones stay in force."""

    def __init__(self, faults: str) -> None:
        super().__init__(f"nothing was changed: {faults}")

    @property
    def summary(self) -> str:
        return str(self)


class TooManyFollowers(ForgeError):
    """The maximum number of clients follow a stream of the admin API."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} clients follow this stream already; close one of them")

    @property
    def summary(self) -> str:
        return str(self)


class RequestNotActive(ForgeError):
    """No request with this id is under way."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"no request with the id {request_id} is under way; it may have ended")

    @property
    def summary(self) -> str:
        return str(self)


class Followable(Protocol):
    """A feed that a limited number of clients follow."""

    @property
    def followers(self) -> int: ...

    @property
    def max_followers(self) -> int: ...


def check_followers(source: Followable) -> None:
    """Raise `TooManyFollowers` if no further client may follow."""
    if source.followers >= source.max_followers:
        raise TooManyFollowers(source.max_followers)


@dataclass(frozen=True, slots=True)
class ServerStatusReport:
    """The state of a managed model server. `detail` is the reason for it, if there is one."""

    state: ServerStateName
    model: str | None = None
    pid: int | None = None
    restarts: int = 0
    detail: str = ""


class BackendControl(Protocol):
    """A managed model server. Running responses end before it is stopped; new requests wait meanwhile."""

    def status(self) -> ServerStatusReport: ...

    async def start(self) -> None:
        """Start it if it does not run yet. Raises `BackendFault`, like the other methods."""
        ...

    async def stop(self) -> None: ...

    async def restart(self) -> None: ...

    async def use(self, model: str) -> None:
        """Load another model. Raises `UnknownModel`, or `BackendFault`; the previous model then stays loaded."""
        ...

    def logs(self, lines: int) -> Sequence[str]:
        """Return the last lines of its log, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """The settings that a reload has changed, as dotted names."""

    applied: tuple[str, ...]
    needs_restart: tuple[str, ...]


class LiveConfiguration(Protocol):
    """The settings in force."""

    def to_json(self) -> JsonObject:
        """Return all current values, with secrets masked."""
        ...

    async def reload(self) -> ReloadResult:
        """Reload and apply the settings that can change while running. Raises `WrongSettings` without any change."""
        ...
