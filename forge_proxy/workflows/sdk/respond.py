"""The `respond` tool for workflows that end with a plain-text response."""

from __future__ import annotations

from forge_proxy.core.guardrails.respond import respond_tool as respond_spec
from forge_proxy.core.workflow.definition import ToolDef


def respond_tool() -> ToolDef:
    """Return a tool whose `message` is the run's result; as a terminal tool it permits a plain-text response."""
    return ToolDef(respond_spec(()), _return_message)


def _return_message(message: str) -> str:
    return message
