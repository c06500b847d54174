"""Messages of a run as JSON."""

from __future__ import annotations

import pytest

from forge_proxy.core.messages import Message, MessageType, ToolCall
from forge_proxy.workflows.runs.message_json import to_json


@pytest.mark.parametrize("tool", ["look", ""])
def test_a_result_contains_the_name_of_its_tool_even_without_a_call(tool: str) -> None:
    message = Message.of(MessageType.RETRY_NUDGE, "no such tool", answers=ToolCall(tool, id="c"))

    out = to_json(message)

    assert (out["tool_name"], out["tool_call_id"]) == (tool, "c")
    assert "name" not in out
