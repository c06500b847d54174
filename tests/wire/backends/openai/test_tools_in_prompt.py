"""Tools in the prompt: their description, and the form of calls and results in a history."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forge_proxy.core.chat import ModelCall, ToolSpec
from forge_proxy.core.dialect import Dialect, UnsupportedFeature
from forge_proxy.core.guardrails.respond import respond_tool
from forge_proxy.core.messages import Message, MessageType, ToolCall
from forge_proxy.wire.backends.openai.request import encode_call
from forge_proxy.wire.clients.chat_completions.request import decode_request

JsonDict = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"q": {"type": "string", "pattern": "a"}}, "required": ["q"]}
TOOLS = [
    {"type": "function", "function": {"name": "find", "description": "finds", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "now", "description": None}},
]
SYSTEM, USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}
PROMPT = Dialect(tools="prompt")


def calls(*made: tuple[str, str, str], content: Any = None) -> JsonDict:
    listed = [
        {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
        for identity, name, arguments in made
    ]
    return {"role": "assistant", "content": content, "tool_calls": listed}


def result(identity: str, content: Any) -> JsonDict:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def sent(*messages: JsonDict, dialect: Dialect = PROMPT, **fields: Any) -> dict[str, Any]:
    said: JsonDict = {"model": "m", "messages": list(messages), "tools": TOOLS}
    more = {key: fields.pop(key) for key in ("respond", "added", "required_tools") if key in fields}
    return encode_call(ModelCall(decode_request({**said, **fields}), stream=True, dialect=dialect, **more))


def test_tools_are_described_at_the_beginning_only() -> None:
    body = sent(SYSTEM, USER, tool_choice="auto", parallel_tool_calls=True, respond=respond_tool(()))

    assert not body.keys() & {"tools", "tool_choice", "parallel_tool_calls"}
    first, second = body["messages"]
    assert second == USER
    told, asked = first["content"][: -len("\n\nBe brief.")], first["content"][-len("\n\nBe brief.") :]
    assert asked == "\n\nBe brief."
    lines = [json.loads(line) for line in told.splitlines() if line.startswith('{"name":"')]
    assert [line["name"] for line in lines] == ["find", "now", "respond"]
    assert lines[0] == {"name": "find", "description": "finds", "parameters": SCHEMA}
    assert sent(USER)["messages"][0]["role"] == "system"  # a system message of the daemon if the client sends none


def test_calls_and_results_become_text_and_the_results_of_one_response_one_message() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    first = calls(("1", "find", '{"q":"a"}'), ("2", "now", "{}"), content="Let me see.")
    seen = [{"type": "text", "text": "two"}, image]
    second = calls(("3", "now", ""))

    _, *messages = sent(
        SYSTEM, USER, first, result("1", "one"), result("2", seen), second, result("3", None)
    )["messages"]  # fmt: skip

    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[1]["content"] == (
        'Let me see.\n\n{"name": "find", "arguments": {"q":"a"}}\n{"name": "now", "arguments": {}}'
    )
    texts = ["[Result of find]\none", "[Result of now]", "two"]
    assert messages[2]["content"] == [*({"type": "text", "text": text} for text in texts), image]
    assert messages[3]["content"] == '{"name": "now", "arguments": {}}'
    assert messages[4]["content"] == [{"type": "text", "text": "[Result of now]"}]
    assert all("tool_calls" not in message for message in messages)


def test_corrections_are_text_too() -> None:
    added = (
        Message.of(MessageType.TOOL_CALL, "", calls=(ToolCall("fnid", "{}", "9"),)),
        Message.of(MessageType.RETRY_NUDGE, "[UnknownTool] fnid.", answers=ToolCall("", id="9")),
    )

    assert sent(USER, added=added)["messages"][2:] == [
        {"role": "assistant", "content": '{"name": "fnid", "arguments": {}}'},
        {"role": "user", "content": "[Result of fnid]\n[UnknownTool] fnid."},
    ]


def test_a_strict_template_gets_roles_that_take_turns() -> None:
    strict = PROMPT.avoid(UnsupportedFeature.ALTERNATION)
    history = (calls(("1", "now", "{}")), result("1", "x"), USER, USER)

    roles = [message["role"] for message in sent(SYSTEM, USER, *history, dialect=strict)["messages"]]
    unsystematic = sent(SYSTEM, USER, *history, dialect=strict.avoid(UnsupportedFeature.NO_SYSTEM))["messages"]

    assert roles == ["system", "user", "assistant", "user"]
    assert [message["role"] for message in unsystematic] == ["user", "assistant", "user"]
    assert unsystematic[0]["content"].endswith("Be brief.\n\nHi.")


def test_a_longer_conversation_begins_as_the_shorter_one_did() -> None:
    turns = [SYSTEM, USER, calls(("1", "now", "{}")), result("1", "x"), calls(("2", "now", "{}")), result("2", "y")]
    whole = sent(*turns)["messages"]

    for length in (2, 4):
        assert sent(*turns[:length])["messages"] == whole[:length]


@pytest.mark.parametrize(("choice", "told"), [("required", True), ("auto", True), ("none", False)])
def test_whatever_is_chosen_the_prompt_stays_the_same_unless_no_call_may_come(choice: str, told: bool) -> None:
    assert (sent(SYSTEM, USER, tool_choice=choice) == sent(SYSTEM, USER)) == told


def test_a_required_call_is_restricted_to_the_described_form() -> None:
    body = sent(USER, tool_choice="required", required_tools=(ToolSpec("now"),))

    (form,) = body["response_format"]["json_schema"]["schema"]["anyOf"]
    assert form["properties"]["name"] == {"const": "now"}
    assert "tool_choice" not in body


def test_simplified_schemas_are_described_if_needed() -> None:
    told = sent(USER, dialect=PROMPT.avoid(UnsupportedFeature.PLAIN_SCHEMAS))["messages"][0]["content"]

    assert "pattern" not in told


@pytest.mark.parametrize(("usual", "then"), [("auto", "prompt"), ("native", "native"), ("prompt", "prompt")])
def test_a_rejection_of_tools_counts_in_auto_mode(usual: Any, then: str) -> None:
    assert Dialect(tools=usual).avoid(UnsupportedFeature.NO_TOOLS).tools == then
