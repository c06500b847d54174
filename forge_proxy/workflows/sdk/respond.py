"""The `respond` tool for workflows that end in words."""

from __future__ import annotations

from forge_proxy.core.guardrails.respond import respond_tool as respond_spec
from forge_proxy.core.workflow.definition import ToolDef


def respond_tool() -> ToolDef:
    """A tool whose `message` is the result of the run: made a terminal tool, it lets the model answer in words."""
    return ToolDef(respond_spec(()), _say)


def _say(message: str) -> str:
    return message
