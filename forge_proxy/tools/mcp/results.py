"""What an MCP server's results and tools are to us. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.workflows.tools import told

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock, Tool


def outcome_of(result: CallToolResult) -> ToolOutcome:
    """The outcome of a call: the text for the model; its value is the structured result where there is one."""
    text = "\n".join(_told(block) for block in result.content)
    if result.is_error:
        return ToolOutcome.failed(text or "the tool failed and did not say why")
    if result.structured_content is None:
        return told(text)
    try:
        json.dumps(result.structured_content, allow_nan=False)
    except ValueError:  # the package's parser takes NaN and Infinity, which no JSON has
        return ToolOutcome.failed("the server's response is no valid JSON, or nested too deeply")
    structured = told(result.structured_content)
    return ToolOutcome(text or structured.text, value=result.structured_content)


def spec_of(tool: Tool) -> ToolSpec:
    """A tool as the model is told of it."""
    return ToolSpec(tool.name, tool.input_schema, tool.description or "")


def _told(block: ContentBlock) -> str:
    """What a model that reads text is told of a part of a result."""
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
