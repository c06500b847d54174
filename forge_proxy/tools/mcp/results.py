"""Converts the results and tools of MCP servers. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.workflows.tools import to_tool_outcome

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock, Tool


def to_outcome(result: CallToolResult) -> ToolOutcome:
    """Convert a call result: text for the model, and the structured content, if any, as value."""
    text = "\n".join(_render_block(block) for block in result.content)
    if result.is_error:
        return ToolOutcome.failed(text or "the tool failed without an error message")
    if result.structured_content is None:
        return to_tool_outcome(text)
    try:
        json.dumps(result.structured_content, allow_nan=False)
    except ValueError:  # the package's parser accepts NaN and Infinity, which are not JSON
        return ToolOutcome.failed("the server's response is not valid JSON, or nested too deeply")
    structured = to_tool_outcome(result.structured_content)
    return ToolOutcome(text or structured.text, value=result.structured_content)


def to_spec(tool: Tool) -> ToolSpec:
    """Convert a tool to its specification for the model."""
    return ToolSpec(tool.name, tool.input_schema, tool.description or "")


def _render_block(block: ContentBlock) -> str:
    """Render a content block as text for the model."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type}: {block.mime_type}, not shown]"
        case "resource_link":
            return f"[resource: {block.uri}]"
        case "resource":
            text = getattr(block.resource, "text", None)
            return text if isinstance(text, str) else f"[resource: {block.resource.uri}, not shown]"
