"""Messages in the formats of the two kinds of model servers."""

from __future__ import annotations

import json

import pytest

from forge_proxy.core.messages import Message, MessageFormat, MessageMeta, MessageRole, MessageType, ToolCall

CALL = ToolCall("get_weather", '{"city": "Oslo"}', "call_1", reasoning="Oslo, then.")


@pytest.mark.parametrize(
    ("format", "call", "result"),
    [
        (
            "openai",
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
            },
            {"role": "tool", "content": "sunny", "tool_call_id": "call_1", "name": "get_weather"},
        ),
        (
            "ollama",
            {"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}},
            {"role": "tool", "content": "sunny", "tool_name": "get_weather"},
        ),
    ],
)
def test_a_call_and_its_result_are_serialized_in_the_format_of_the_server(
    format: MessageFormat,  # noqa: A002 - the parameter's name
    call: object,
    result: object,
) -> None:
    made = Message.of(MessageType.TOOL_CALL, calls=(CALL,)).at(3)
    came = Message.of(MessageType.TOOL_RESULT, "sunny", answers=CALL).at(3)

    assert made.to_api_dict(format) == {"role": "assistant", "content": "", "tool_calls": [call]}
    assert came.to_api_dict(format) == result


def test_metadata_is_not_sent_to_the_server() -> None:
    meta = MessageMeta(MessageType.SUMMARY, step_index=2, original_type=MessageType.TOOL_RESULT, token_estimate=7)

    assert Message(MessageRole.SYSTEM, "short", meta).to_api_dict() == {"role": "system", "content": "short"}


def test_invalid_arguments_become_an_empty_object_for_ollama_and_stay_unchanged_for_openai() -> None:
    said = Message.of(MessageType.TOOL_CALL, calls=(ToolCall("get_weather", "{city", "call_1"),))

    as_sent, ollama = (json.dumps(said.to_api_dict(kind)) for kind in ("openai", "ollama"))

    assert '"arguments": "{city"' in as_sent
    assert '"arguments": {}' in ollama
