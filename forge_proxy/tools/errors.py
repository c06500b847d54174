"""Errors before a tool is called. Errors of a call are returned to the model instead."""

from __future__ import annotations

from forge_proxy.core.errors import ForgeError
from forge_proxy.workflows.tool_registry import ToolUnusable


class NotAllowed(ForgeError):
    """The configuration does not allow this host or server. The message names the setting."""


class ToolServerUnusable(ToolUnusable):
    """An MCP server cannot be started or reached, or does not speak MCP. `server` is its name or URL."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(f"the MCP server {server} cannot be used: {why}")
        self.server = server
        self.why = why

    @property
    def summary(self) -> str:
        return f"the MCP server {self.server} cannot be used"  # without `why`: stderr of a program may contain anything


class SessionEnded(ForgeError):
    """The session with an MCP server has ended. `received` is true if the server may have received the call."""

    def __init__(self, why: str, *, received: bool) -> None:
        super().__init__(why)
        self.received = received
