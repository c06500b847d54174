"""The body of a Messages request: its content, what is omitted, and what is rejected by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forge_proxy.core.chat import ModelCall, ResolvedModel, ToolChoice, ToolSpec
from forge_proxy.core.dialect import Dialect, UnsupportedFeature
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.messages import Message, MessageType, ToolCall
from forge_proxy.wire.backends.anthropic.capabilities import ModelFacts, decode_facts
from forge_proxy.wire.backends.anthropic.request import encode_call
from forge_proxy.wire.clients.chat_completions.request import decode_request

JsonDict = dict[str, Any]
USER = {"role": "user", "content": "u"}
CALLED = {
    "role": "assistant",
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "old.tool", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "r"}
RESPOND = ToolSpec("respond", {"type": "object", "properties": {"message": {"type": "string"}}}, "answer the user")


def tool(name: str, parameters: Any = None, **fields: Any) -> JsonDict:
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}, **fields}


A, B = tool("a"), tool("b")
MARK = {"type": "ephemeral"}


def call(body: JsonDict, **fields: Any) -> ModelCall:
    request = decode_request({"model": "claude-x", "messages": [USER], **body})
    return ModelCall(request, stream=True, **fields)


def body_of(body: JsonDict, facts: ModelFacts | None = None, **fields: Any) -> dict[str, Any]:
    return encode_call(call(body, **fields), facts or ModelFacts())[0]


@pytest.mark.parametrize(
    ("said", "facts", "written"),
    [
        ({}, ModelFacts(), {"max_tokens": 4096}),
        ({}, ModelFacts(max_tokens=64000), {"max_tokens": 64000}),
        ({"max_tokens": 10, "max_completion_tokens": 7}, ModelFacts(max_tokens=64000), {"max_tokens": 7}),
        ({"max_tokens": 100000}, ModelFacts(max_tokens=64000), {"max_tokens": 64000}),
        ({"stop": "x"}, ModelFacts(), {"max_tokens": 4096, "stop_sequences": ["x"]}),
        ({"stop": ["x", "\n", "y"]}, ModelFacts(), {"max_tokens": 4096, "stop_sequences": ["x", "y"]}),
        ({"user": "me"}, ModelFacts(), {"max_tokens": 4096, "metadata": {"user_id": "me"}}),
        ({"temperature": 0.2, "top_p": 0.9}, ModelFacts(), {"max_tokens": 4096, "temperature": 0.2}),
        ({"temperature": 1.7, "top_k": 5}, ModelFacts(), {"max_tokens": 4096, "temperature": 1.0, "top_k": 5}),
        ({"top_p": 0.9}, ModelFacts(), {"max_tokens": 4096, "top_p": 0.9}),
        ({"seed": 1, "logit_bias": {}, "frequency_penalty": 1, "unknown": 2}, ModelFacts(), {"max_tokens": 4096}),
        ({"cache_control": MARK}, ModelFacts(), {"max_tokens": 4096, "cache_control": MARK}),
    ],
)  # fmt: skip
def test_options_have_the_names_of_the_server(said: JsonDict, facts: ModelFacts, written: JsonDict) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "u"}]}]

    assert body_of(said, facts) == {"model": "claude-x", "messages": messages, **written}


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ({}, {"temperature": 0.3, "top_k": 20}),
        ({"temperature": 0.9}, {"temperature": 0.9, "top_k": 20}),
        ({"top_p": 0.8, "temperature": None}, {"top_p": 0.8, "top_k": 20}),
    ],
)
def test_sampling_of_the_model_is_for_what_the_client_omits(said: JsonDict, written: JsonDict) -> None:
    sent = body_of(said, resolved=ResolvedModel("m", sampling={"temperature": 0.3, "top_p": 0.5, "top_k": 20}))
    assert {name: sent.get(name) for name in ("temperature", "top_p", "top_k") if name in sent} == written


def test_max_tokens_is_bounded_by_the_rest_of_the_window() -> None:
    assert body_of({"max_tokens": 500}, room=100)["max_tokens"] == 100


@pytest.mark.parametrize(
    ("said", "choice"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, None),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": {"type": "function", "function": {"name": "b"}}}, {"type": "tool", "name": "b"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"parallel_tool_calls": False, "tool_choice": "required"},
            {"type": "any", "disable_parallel_tool_use": True},
        ),
        (
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [A, B]}}},
            {"type": "any"},
        ),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [A]}}}, None),
    ],
)
def test_each_form_of_tool_choice_has_its_own(said: JsonDict, choice: JsonDict | None) -> None:
    assert body_of({"tools": [A, B], **said}).get("tool_choice") == choice


def test_a_required_call_that_the_body_does_not_state_is_sent_with_the_last_retry() -> None:
    request = decode_request({"model": "claude-x", "messages": [USER], "tools": [A, B]})
    ours = replace(request, tool_choice=ToolChoice("required"))

    first = encode_call(ModelCall(ours, stream=True), ModelFacts())[0]
    last = encode_call(ModelCall(ours, stream=True, required_tools=request.tools), ModelFacts())[0]

    assert (first.get("tool_choice"), last.get("tool_choice")) == (None, {"type": "any"})


def test_tools_are_sent_in_order_respond_last_with_valid_names() -> None:
    offered = [
        tool("mcp.x/y", {"properties": {}}),
        tool("mcp_x_y", True),
        tool("z", {"type": "object"}, cache_control=MARK),
    ]

    body, names = encode_call(call({"tools": offered}, respond=RESPOND), ModelFacts())

    assert body["tools"] == [
        {"name": "mcp_x_y", "description": "d", "input_schema": {"properties": {}, "type": "object"}},
        {"name": "mcp_x_y_2", "description": "d", "input_schema": {"type": "object"}},
        {"name": "z", "description": "d", "input_schema": {"type": "object"}, "cache_control": MARK},
        {"name": "respond", "description": "answer the user", "input_schema": RESPOND.parameters},
    ]
    assert [names.decode(name) for name in ("mcp_x_y", "mcp_x_y_2", "respond")] == ["mcp.x/y", "mcp_x_y", "respond"]


def test_a_history_with_calls_has_tools_even_when_none_are_offered() -> None:
    body = body_of({"messages": [USER, CALLED, RESULT]})

    assert body["tools"] == [{"name": "old_tool", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "none"}


def test_a_required_call_is_restricted_to_its_tools() -> None:
    body = body_of({"tools": [A, B], "tool_choice": "required"}, required_tools=(ToolSpec("b"),))

    assert [one["name"] for one in body["tools"]] == ["b"]
    assert body["tool_choice"] == {"type": "tool", "name": "b"}


def test_a_constrained_retry_requires_a_call_of_any_tool_respond_included() -> None:
    offered = (ToolSpec("a"), ToolSpec("b"), RESPOND)

    body = body_of({"tools": [A, B]}, respond=RESPOND, required_tools=offered)

    assert [one["name"] for one in body["tools"]] == ["a", "b", "respond"]
    assert body["tool_choice"] == {"type": "any"}


def test_corrections_are_a_call_and_its_result() -> None:
    added = (
        Message.of(MessageType.TOOL_CALL, "", calls=(ToolCall("a", '{"x":', "9"),)),
        Message.of(MessageType.RETRY_NUDGE, "[UnknownTool]", answers=ToolCall("", id="9")),
    )

    messages = body_of({"tools": [A]}, added=added)["messages"]

    assert messages[1:] == [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "9", "name": "a", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "9", "content": "[UnknownTool]"}]},
    ]


ADAPTIVE = ModelFacts(thinking=frozenset({"adaptive"}), efforts=frozenset({"low", "medium", "high"}))
BUDGETED = ModelFacts(thinking=frozenset({"enabled", "disabled"}))
SHOWN = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("said", "facts", "thinking", "config"),
    [
        ({}, ADAPTIVE, None, None),
        ({"reasoning_effort": "high"}, ADAPTIVE, SHOWN, {"effort": "high"}),
        ({"reasoning_effort": "max"}, ADAPTIVE, SHOWN, {"effort": "high"}),
        ({"reasoning_effort": "minimal"}, ModelFacts(), SHOWN, {"effort": "low"}),
        ({"reasoning": {"effort": "xhigh"}}, ModelFacts(), SHOWN, {"effort": "xhigh"}),
        ({"reasoning_effort": "none"}, ADAPTIVE, None, None),
        ({"reasoning_effort": "none"}, BUDGETED, {"type": "disabled"}, None),
        ({"reasoning_effort": "high"}, BUDGETED, {"type": "enabled", "budget_tokens": 3072}, None),
        ({"reasoning_effort": "low"}, BUDGETED, {"type": "enabled", "budget_tokens": 1024}, None),
        ({"reasoning_effort": "low", "max_tokens": 2000}, BUDGETED, None, None),
        ({"reasoning_effort": "low", "messages": [USER, CALLED, RESULT]}, BUDGETED, None, None),
        ({"reasoning_effort": "high", "tools": [A], "tool_choice": "required"}, ADAPTIVE, None, {"effort": "high"}),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 9}},
            ADAPTIVE,
            {"type": "enabled", "budget_tokens": 9},
            None,
        ),
        ({"output_config": {"effort": "low"}, "reasoning_effort": "high"}, ADAPTIVE, SHOWN, {"effort": "low"}),
    ],
)
def test_effort_is_asked_for_as_the_model_takes_it(
    said: JsonDict, facts: ModelFacts, thinking: JsonDict | None, config: JsonDict | None
) -> None:
    body = body_of({**said, "temperature": 0.5}, facts)

    assert (body.get("thinking"), body.get("output_config")) == (thinking, config)
    assert ("temperature" in body) == (thinking is None)  # the server takes none beside thoughts


def test_a_response_format_becomes_an_output_schema() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}

    assert body_of({"response_format": form})["output_config"] == {
        "format": {"type": "json_schema", "schema": {"type": "object"}}
    }
    assert body_of({"response_format": {"type": "json_object"}})["system"] == [
        {"type": "text", "text": "Answer with one JSON object and nothing else."}
    ]
    with pytest.raises(InvalidRequest, match="claude-x"):
        body_of({"response_format": form}, ModelFacts(has_structured_outputs=False))


@pytest.mark.parametrize(
    ("said", "at"),
    [
        ({"n": 2}, "n"),
        ({"tools": [A, {"type": "custom", "custom": {"name": "c"}}]}, "tools[1]"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
    ],
)
def test_unsupported_fields_are_rejected_by_name(said: JsonDict, at: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        body_of(said)

    assert caught.value.at == at


def test_tools_of_anthropic_itself_go_on_as_they_are() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}

    assert body_of({"tools": [search]})["tools"] == [search]


@pytest.mark.parametrize(
    ("need", "absent"),
    [(UnsupportedFeature.NO_SAMPLING, "temperature"), (UnsupportedFeature.FREE_CHOICE, "tool_choice")],
)
def test_fields_that_a_model_rejects_are_omitted(need: UnsupportedFeature, absent: str) -> None:
    said = call({"tools": [A], "tool_choice": "required", "temperature": 0.1})

    assert absent in encode_call(said, ModelFacts())[0]
    assert absent not in encode_call(replace(said, dialect=Dialect().avoid(need)), ModelFacts())[0]


def test_an_answer_that_a_model_does_not_go_on_with_is_followed_by_a_user() -> None:
    said = call(
        {"messages": [USER, {"role": "assistant", "content": "It is"}]},
        dialect=Dialect().avoid(UnsupportedFeature.USER_LAST),
    )

    messages: Any = encode_call(said, ModelFacts())[0]["messages"]

    assert [message["role"] for message in messages] == ["user", "assistant", "user"]


def test_facts_are_read_from_the_model_list() -> None:
    yes, no = {"supported": True}, {"supported": False}
    told = {
        "id": "claude-x",
        "max_tokens": 64000,
        "capabilities": {
            "effort": {"supported": True, "low": yes, "high": yes, "max": no, "xhigh": None},
            "structured_outputs": no,
            "thinking": {"supported": True, "types": {"adaptive": yes, "enabled": no, "disabled": yes}},
        },
    }

    facts = decode_facts(told)

    assert (facts.max_tokens, facts.has_structured_outputs) == (64000, False)
    assert facts.thinking == {"adaptive", "disabled"}
    assert facts.efforts >= {"low", "high"}
    assert not facts.efforts & {"max", "xhigh"}
    assert decode_facts({"id": "x", "capabilities": None}) == ModelFacts()
