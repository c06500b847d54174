"""`/admin/v1/backend`: the state of the model server, and the control of a managed one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from forge_proxy.api.admin.former_names import former_field
from forge_proxy.api.admin.ports import ServerStateName
from forge_proxy.api.admin.services import AdminServices


class HealthInfo(BaseModel):
    """Whether the model server can answer requests now."""

    status: Literal["ok", "loading", "down"]
    detail: str


class ManagedServerInfo(BaseModel):
    """A managed model server."""

    state: ServerStateName
    model: str | None
    pid: int | None
    restarts: int = Field(description="How often it was restarted after a crash.")
    detail: str


class BackendInfo(BaseModel):
    """The model server."""

    kind: str
    url: str
    reason: str = Field(description="The reason why this one was chosen.")
    health: HealthInfo
    managed: bool = Field(description="Whether the daemon can start, stop and restart it.")
    unmanaged_reason: str | None = Field(description="The reason why it cannot.")
    server: ManagedServerInfo | None = Field(description="Its state, if it is managed.")
    because = former_field("reason", str)
    unmanaged_because = former_field("unmanaged_reason", str | None)


class ModelChoice(BaseModel):
    """The model to load."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(min_length=1, max_length=4096, description="Its name in the catalog.")


class ServerLog(BaseModel):
    """Lines of the log of the model server."""

    lines: list[str] = Field(description="Oldest first.")


class BackendEndpoints:
    """The endpoints of `/backend`."""

    def __init__(self, parts: AdminServices) -> None:
        self._parts = parts

    async def read(self) -> BackendInfo:
        """Show which model server is used, the reason, its health, and whether it is managed."""
        parts = self._parts
        health = await parts.backend.health()
        control = parts.control
        return BackendInfo(
            kind=parts.about.kind,
            url=parts.backend.url,
            reason=parts.about.reason,
            health=HealthInfo(status=health.status, detail=health.detail),
            managed=control is not None,
            unmanaged_reason=None if control else parts.about.unmanaged,
            server=ManagedServerInfo(**asdict(control.status())) if control else None,
        )

    async def start(self) -> BackendInfo:
        """Start it if it does not run yet, and wait until it is ready."""
        await self._parts.managed.start()
        return await self.read()

    async def stop(self) -> BackendInfo:
        """Stop the server once the running responses have ended."""
        await self._parts.managed.stop()
        return await self.read()

    async def restart(self) -> BackendInfo:
        """Restart it. Requests wait until it is ready again."""
        await self._parts.managed.restart()
        return await self.read()

    async def use(self, choice: ModelChoice) -> BackendInfo:
        """Load another model. If that fails, the previous one stays loaded."""
        await self._parts.managed.use(choice.model)
        return await self.read()

    async def logs(
        self, lines: Annotated[int, Query(ge=1, le=10_000, description="The number of lines.")] = 100
    ) -> ServerLog:
        """Show the last lines of its log."""
        return ServerLog(lines=list(self._parts.managed.logs(lines)))
