"""docs/runs.md is whole: it names every field of a submission, every state and every event."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from pydantic import BaseModel

from forge_proxy.tools.callbacks import HttpExecution
from forge_proxy.tools.mcp.executor import McpExecution
from forge_proxy.workflows.runs.message_json import MessageJson
from forge_proxy.workflows.runs.records import EventType, RunStatus
from forge_proxy.workflows.runs.submission import (
    ContextOptions,
    Submission,
    SubmittedTool,
    SubmittedWorkflow,
    ToolPrerequisite,
)
from forge_proxy.workflows.runs.tool_outputs import ToolOutput
from tests.docs.guides import GUIDES

PAGE = re.sub(r"^```.*?^```$", "", (GUIDES / "runs.md").read_text(), flags=re.DOTALL | re.MULTILINE)
"""Without its code blocks."""
NAMED = {word for quoted in re.findall(r"`([^`]+)`", PAGE) for word in re.findall(r"\w+", quoted)}


@pytest.mark.parametrize(
    "model",
    [
        Submission,
        SubmittedWorkflow,
        SubmittedTool,
        ToolPrerequisite,
        ContextOptions,
        ToolOutput,
        MessageJson,
        HttpExecution,
        McpExecution,
    ],
)
def test_every_field_is_named(model: type[BaseModel]) -> None:
    assert set(model.model_fields) <= NAMED


def test_every_state_and_every_event_is_named() -> None:
    assert {*get_args(RunStatus), *get_args(EventType)} <= NAMED


def test_what_is_said_to_be_the_default_is() -> None:
    said = dict(re.findall(r"`(\w+)` \((\w+)\)", PAGE))

    fields = {**Submission.model_fields, **ContextOptions.model_fields}
    for name in ("max_iterations", "max_retries_per_step", "max_tool_errors", "rescue_enabled", "keep_recent"):
        assert said[name] == str(fields[name].default).lower()
