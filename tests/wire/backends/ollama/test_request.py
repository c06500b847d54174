"""The request to `/api/chat` for a request in OpenAI format."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.core.chat import ModelCall, ResolvedModel, ToolSpec
from forge_proxy.core.dialect import Dialect
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.messages import Message, MessageType, ToolCall
from forge_proxy.wire.backends.ollama.options import find_omitted_fields
from forge_proxy.wire.backends.ollama.request import OllamaRequestOptions, encode_call, encode_loading
from forge_proxy.wire.backends.openai.reasoning import read_think
from forge_proxy.wire.clients.chat_completions.request import decode_request

USER = {"role": "user", "content": "hi"}
CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALLED = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}


def encoded(body: dict[str, Any], terms: OllamaRequestOptions | None = None, **fields: Any) -> dict[str, Any]:
    request = decode_request({"model": "m", "messages": [USER], **body})
    return dict(encode_call(ModelCall(request, stream=True, **fields), terms or OllamaRequestOptions(), None))


def tool(parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": parameters}}


def test_a_prompt_that_is_too_long_is_to_be_refused_and_never_cut() -> None:
    assert encoded({}) == {"model": "m", "stream": True, "truncate": False, "shift": False, "messages": [USER]}


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ({"temperature": 0, "top_p": 0.9, "seed": 7}, {"temperature": 0, "top_p": 0.9, "seed": 7}),
        ({"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1}, {"top_k": 5, "min_p": 0.1, "repeat_penalty": 1.1}),
        ({"presence_penalty": 1, "frequency_penalty": 2}, {"presence_penalty": 1, "frequency_penalty": 2}),
        ({"stop": "END"}, {"stop": ["END"]}),
        ({"stop": ["a", "b"]}, {"stop": ["a", "b"]}),
        ({"max_tokens": 9}, {"num_predict": 9}),
        ({"max_tokens": 9, "max_completion_tokens": 5}, {"num_predict": 5}),
        ({"max_tokens": -1}, {"num_predict": -1}),
        ({"temperature": None}, {}),
        ({"options": {"num_thread": 4, "temperature": 1}, "temperature": 0}, {"num_thread": 4, "temperature": 0}),
    ],
)
def test_fields_become_options(said: dict[str, Any], options: dict[str, Any]) -> None:
    assert encoded(said).get("options", {}) == options


@pytest.mark.parametrize(("room", "options"), [(4, {"num_predict": 4}), (0, {}), (99, {"num_predict": 9})])
def test_a_token_limit_is_lowered_to_the_rest_of_the_window(room: int, options: dict[str, Any]) -> None:
    assert encoded({"max_tokens": 9}, room=room).get("options", {}) == options


@pytest.mark.parametrize(
    ("said", "temperature"), [({}, 0.3), ({"temperature": 0.9}, 0.9), ({"options": {"temperature": 0.8}}, 0.8)]
)
def test_sampling_of_the_model_is_for_what_the_client_omits(said: dict[str, Any], temperature: float) -> None:
    model = ResolvedModel("m", sampling={"temperature": 0.3, "min_p": 0.1})
    assert encoded(said, resolved=model)["options"] == {"temperature": temperature, "min_p": 0.1}


def test_the_window_comes_from_the_settings_and_keep_alive_from_the_request() -> None:
    terms = OllamaRequestOptions(num_ctx=8192, keep_alive="30m")

    assert encoded({"options": {"num_ctx": 1}}, terms)["options"] == {"num_ctx": 8192}
    assert encoded({}, terms)["keep_alive"] == "30m"
    assert encoded({"keep_alive": 0}, terms)["keep_alive"] == 0


def test_a_model_is_loaded_under_the_terms_of_the_requests_to_come() -> None:
    asked = encoded({}, OllamaRequestOptions(num_ctx=8192, keep_alive=-1))
    loading = encode_loading("m", OllamaRequestOptions(num_ctx=8192, keep_alive=-1))

    assert {key: asked[key] for key in loading if key != "messages"} | {"messages": []} == loading


@pytest.mark.parametrize(
    ("said", "held"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, "json"),
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": CITY}}, CITY),
    ],
)
def test_a_response_format_becomes_a_format(said: dict[str, Any], held: Any) -> None:
    assert encoded({"response_format": said}).get("format") == held


def test_a_required_call_becomes_a_format() -> None:
    held = encoded({"tools": [tool(CITY)]}, required_tools=(ToolSpec("get_weather", CITY),))

    (option,) = held["format"]["anyOf"]
    assert option["properties"]["name"] == {"const": "get_weather"}
    assert len(held["tools"]) == 1  # they stay in the prompt


def test_a_server_that_refused_the_schema_gets_none() -> None:
    free = encoded({"tools": [tool(CITY)]}, required_tools=(ToolSpec("get_weather", CITY),), constraint="tool_choice")

    assert "format" not in free


def test_with_tool_choice_none_tools_are_not_sent() -> None:
    assert "tools" not in encoded({"tools": [tool(CITY)], "tool_choice": "none"})


def test_tools_in_the_prompt_are_not_sent_as_well() -> None:
    body = encoded({"tools": [tool(CITY)]}, dialect=Dialect(tools="prompt"))

    assert "tools" not in body
    assert "get_weather" in body["messages"][0]["content"]


def test_messages_become_text_with_images_and_objects() -> None:
    parts = [
        {"type": "text", "text": "what"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "text", "text": "is it?"},
    ]
    messages = [
        {"role": "developer", "content": "be nice"},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [CALLED]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "sunny"}]},
    ]

    assert encoded({"messages": messages})["messages"] == [
        {"role": "system", "content": "be nice"},
        {"role": "user", "content": "what\nis it?", "images": ["iVBORw0KGgo="]},
        {
            "role": "assistant",
            "content": "",
            "thinking": "hm",
            "tool_calls": [{"id": "c1", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}],
        },
        {"role": "tool", "content": "sunny", "tool_call_id": "c1", "tool_name": "get_weather"},
    ]


def test_broken_arguments_are_repaired_and_corrections_follow() -> None:
    broken = {**CALLED, "function": {"name": "get_weather", "arguments": "{city: 'Oslo'"}}
    added = (
        Message.of(MessageType.TOOL_CALL, calls=(ToolCall("get_weather", "{}", "c2"),)),
        Message.of(MessageType.RETRY_NUDGE, "[ToolArgValidationError] …", answers=ToolCall("", id="c2")),
    )

    sent = encoded({"messages": [USER, {"role": "assistant", "tool_calls": [broken]}]}, added=added)["messages"]

    assert isinstance(sent[1]["tool_calls"][0]["function"]["arguments"], dict)
    assert (sent[3]["tool_name"], sent[3]["tool_call_id"]) == ("get_weather", "c2")


@pytest.mark.parametrize(
    ("part", "at", "why"),
    [
        ({"type": "image_url", "image_url": {"url": "https://x/y.png"}}, "messages[0].content[0].image_url", "data:"),
        ({"type": "image_url", "image_url": "data:image/svg+xml,<svg/>"}, "messages[0].content[0].image_url", "data:"),
        ({"type": "input_audio", "input_audio": {}}, "messages[0].content[0]", "text and image_url"),
    ],
)
def test_content_that_it_cannot_take_is_refused_by_its_place(part: Any, at: str, why: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        encoded({"messages": [{"role": "user", "content": [part]}]})

    assert refused.value.at == at
    assert why in refused.value.why


@pytest.mark.parametrize(
    "schema",
    [
        CITY,
        {"type": "object", "properties": {"a": {"type": ["string", "null"], "enum": ["x", None]}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "minItems": 3000}}},
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}},
        {"type": "object", "properties": {}, "additionalProperties": False},
    ],
)
def test_a_supported_schema_is_sent_unchanged(schema: Any) -> None:
    (offered,) = encoded({"tools": [tool(schema)]})["tools"]

    assert offered["function"]["parameters"] == schema


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (True, {"type": "object", "properties": {}}),
        (None, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": None}, {"type": "object", "properties": {}}),
        ({"type": ["object", "null"]}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": {"a": True}}, {"type": "object", "properties": {"a": {}}}),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "integer"}}},
            {"type": "object", "properties": {"a": {"type": "integer"}}},
        ),
        (
            {"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}, {"const": 1}]}}},
            {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"enum": [1]}]}}},
        ),
    ],
)
def test_a_schema_that_it_would_refuse_or_lose_is_sent_as_its_projection(schema: Any, sent: Any) -> None:
    (offered,) = encoded({"tools": [tool(schema)]})["tools"]

    assert offered["function"]["parameters"] == sent


def test_plain_schemas_are_plain() -> None:
    pattern = {"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}

    (offered,) = encoded({"tools": [tool(pattern)]}, dialect=Dialect(plain_schemas=True))["tools"]

    assert offered["function"]["parameters"] == {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("said", "think"),
    [
        ({}, None),
        ({"think": "low"}, "low"),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "minimal"}, "low"),
        ({"reasoning_effort": "high"}, "high"),
        ({"reasoning": {"effort": "medium"}}, "medium"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False),
    ],
)
def test_reasoning_fields_become_think(said: dict[str, Any], think: Any) -> None:
    assert read_think(said) == think


def test_fields_without_a_place_are_known() -> None:
    messages = [{"role": "user", "name": "me"}, {"role": "tool", "name": "f"}]
    body: dict[str, Any] = {
        "model": "m", "messages": messages, "n": 2, "logit_bias": {}, "user": "me", "temperature": 0, "store": None,
        "response_format": {"type": "grammar"}, "reasoning_effort": "low", "tool_choice": "none", "stream_options": {},
    }  # fmt: skip

    assert find_omitted_fields(body) == ("n", "logit_bias", "user", "response_format", "messages[].name")
