"""`/admin/v1/guardrails/clients`: the sets of tools that clients offer, and with which of them they end a task."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from forge_proxy.core.guardrails.client_history import ToolSetRecord
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.ports import Clock


class TerminalToolInfo(BaseModel):
    """A tool that ends the client's task."""

    name: str
    reason: Literal["name", "description", "configuration", "evidence"] = Field(
        description=(
            "How it was recognized: by its name, its description or `guardrails.terminal_tools`, or because its calls"
            " never come back with a result."
        )
    )


class ClientInfo(BaseModel):
    """The clients that offer one set of tools."""

    id: str = Field(description="Derived from the names of the tools.")
    tools: list[str] = Field(description="The names of the tools in alphabetical order, at most 64.")
    tool_count: int = Field(description="The number of tools.")
    kind: Literal["text", "terminal"] = Field(
        description="`terminal`: the latest request had a terminal tool, so `respond` was not offered."
    )
    terminal_tools: list[TerminalToolInfo] = Field(description="The terminal tools of the latest request.")
    requests: int = Field(description="The number of requests with this set of tools.")
    idle_seconds: float = Field(description="Seconds since the latest of them.")


class ClientList(BaseModel):
    """The 128 most recently used sets of tools since the start of the daemon, the latest one last."""

    object: Literal["list"] = "list"
    data: list[ClientInfo]


class ClientEndpoints:
    """The endpoints of `/guardrails/clients`."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._history = engine.client_history
        self._clock = clock

    async def read(self) -> ClientList:
        """Show each set of tools that was offered, and how its clients end a task. Contains no prompts."""
        now = self._clock.now()
        return ClientList(data=[_to_info(identity, record, now) for identity, record in self._history.records.items()])

    async def forget(self) -> ClientList:
        """Forget all sets of tools, and which tools were recognized because their calls were never answered."""
        self._history.forget()
        return await self.read()


def _to_info(identity: str, record: ToolSetRecord, now: float) -> ClientInfo:
    return ClientInfo(
        id=identity,
        tools=list(record.tools),
        tool_count=record.tool_count,
        kind=record.kind,
        terminal_tools=[TerminalToolInfo(name=tool.name, reason=tool.reason) for tool in record.terminal],
        requests=record.requests,
        idle_seconds=round(now - record.last_request, 1),
    )
