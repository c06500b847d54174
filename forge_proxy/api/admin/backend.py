"""`/admin/v1/backend`: the model server, and what can be done with one that is ours."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from forge_proxy.api.admin.parts import AdminParts
from forge_proxy.api.admin.ports import ServerState


class HealthNow(BaseModel):
    """Whether the model server can be asked now."""

    status: Literal["ok", "loading", "down"]
    detail: str


class ServerNow(BaseModel):
    """A model server of ours."""

    state: ServerState
    model: str | None
    pid: int | None
    restarts: int = Field(description="How often it was started again after it had died.")
    detail: str


class BackendNow(BaseModel):
    """The model server."""

    kind: str
    url: str
    because: str = Field(description="Why it is this one.")
    health: HealthNow
    managed: bool = Field(description="Whether it can be started, stopped and restarted here.")
    unmanaged_because: str | None = Field(description="Why it cannot.")
    server: ServerNow | None = Field(description="What it is doing, where it is managed.")


class ModelChoice(BaseModel):
    """The model to serve."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(min_length=1, max_length=4096, description="Its name in the catalog.")


class LogLines(BaseModel):
    """What the model server wrote."""

    lines: list[str] = Field(description="Oldest first.")


class BackendDesk:
    """The endpoints."""

    def __init__(self, parts: AdminParts) -> None:
        self._parts = parts

    async def read(self) -> BackendNow:
        """Which model server it is, why, how it is, and whether it is managed."""
        parts = self._parts
        health = await parts.backend.health()
        control = parts.control
        return BackendNow(
            kind=parts.about.kind,
            url=parts.backend.url,
            because=parts.about.because,
            health=HealthNow(status=health.status, detail=health.detail),
            managed=control is not None,
            unmanaged_because=None if control else parts.about.unmanaged,
            server=ServerNow(**asdict(control.status())) if control else None,
        )

    async def start(self) -> BackendNow:
        """Start it, where it does not run already, and wait until it can be asked."""
        await self._parts.managed.start()
        return await self.read()

    async def stop(self) -> BackendNow:
        """Stop it, when the answers that are under way have ended."""
        await self._parts.managed.stop()
        return await self.read()

    async def restart(self) -> BackendNow:
        """Stop and start it. Requests that come meanwhile wait."""
        await self._parts.managed.restart()
        return await self.read()

    async def use(self, choice: ModelChoice) -> BackendNow:
        """Serve another model. If it cannot be loaded, the one before is served on."""
        await self._parts.managed.use(choice.model)
        return await self.read()

    async def logs(self, lines: Annotated[int, Query(ge=1, le=10_000, description="How many.")] = 100) -> LogLines:
        """The last lines that it wrote."""
        return LogLines(lines=list(self._parts.managed.logs(lines)))
