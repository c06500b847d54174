"""Messages of a run as JSON."""

from __future__ import annotations

import pytest

from forge_proxy.core.messages import Message, MessageType, ToolCall
from forge_proxy.workflows.runs.message_json import written


@pytest.mark.parametrize("tool", ["look", ""])
def test_a_result_is_written_with_the_name_of_its_tool_also_where_the_model_called_none(tool: str) -> None:
    message = Message.of(MessageType.RETRY_NUDGE, "no such tool", answers=ToolCall(tool, id="c"))

    out = written(message)

    assert (out["tool_name"], out["tool_call_id"]) == (tool, "c")
    assert "name" not in out
