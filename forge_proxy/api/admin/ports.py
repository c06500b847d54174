"""What the admin API needs from outside, said by it. `daemon` fills it in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import JsonObject

ServerState = Literal["starting", "loading", "ready", "draining", "stopped", "asleep", "crash-loop", "failed"]


class NotManaged(ForgeError):
    """The model server is not ours to start, stop or restart, and its log is not ours to show."""

    def __init__(self, why: str) -> None:
        super().__init__(f"this backend is not managed by forge-proxy: {why}")

    @property
    def summary(self) -> str:
        return str(self)


class WrongSettings(ForgeError):
    """The settings as they are written now cannot be used; what was before holds on."""

    def __init__(self, faults: str) -> None:
        super().__init__(f"nothing was changed: {faults}")

    @property
    def summary(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class ServerStatusReport:
    """A model server of ours. `detail` says why it is in this state, where there is more to say."""

    state: ServerState
    model: str | None = None
    pid: int | None = None
    restarts: int = 0
    detail: str = ""


class BackendControl(Protocol):
    """A model server of ours. What is under way ends before it is stopped; what comes meanwhile waits."""

    def status(self) -> ServerStatusReport: ...

    async def start(self) -> None:
        """Nothing where it runs already. Raises `BackendFault`, as the others do."""
        ...

    async def stop(self) -> None: ...

    async def restart(self) -> None: ...

    async def use(self, model: str) -> None:
        """Serve this model from now on. Raises `UnknownModel`, or `BackendFault` with the one before served on."""
        ...

    def logs(self, lines: int) -> Sequence[str]:
        """The last lines that it wrote, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """What reading the settings again came to, as dotted names."""

    applied: tuple[str, ...]
    needs_restart: tuple[str, ...]


class LiveConfiguration(Protocol):
    """The settings that hold."""

    def shown(self) -> JsonObject:
        """All of them as they hold now, secrets masked."""
        ...

    async def reload(self) -> ReloadResult:
        """Read them again and change what can be changed. Raises `WrongSettings`: then nothing was changed."""
        ...
