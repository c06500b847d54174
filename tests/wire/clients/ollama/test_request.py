"""Requests of Ollama's API as chat completions: each field is converted, kept for an Ollama, dropped or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.wire.clients.ollama.embeddings import decode_embed, decode_embeddings
from forge_proxy.wire.clients.ollama.models import read_shown_name
from forge_proxy.wire.clients.ollama.request import decode_chat, decode_generate

JsonDict = dict[str, Any]
USER: JsonDict = {"role": "user", "content": "hi"}
RECORDED: dict[str, JsonDict] = json.loads((Path(__file__).parent / "recorded_requests.json").read_text())

SAMPLING: JsonDict = {
    "temperature": 0.5, "top_k": 3, "top_p": 1, "min_p": 0.1, "typical_p": 1, "seed": 7, "repeat_penalty": 1.1,
    "repeat_last_n": 64, "presence_penalty": 0, "frequency_penalty": 0.5,
}  # fmt: skip
SCHEMA: JsonDict = {"name": "response", "schema": {"type": "array"}}
A_CALL: JsonDict = {"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": []}}]}
NO_NAME: JsonDict = {"role": "assistant", "tool_calls": [{"function": {}}]}


def converted(**fields: Any) -> Any:
    """The chat completion that a model server other than Ollama receives."""
    return decode_chat({"messages": [USER], **fields}).adapt_to_other_backend().chat.body


def messages_of(*messages: JsonDict) -> Any:
    return decode_chat({"messages": [*messages]}).chat.body["messages"]


@pytest.mark.parametrize("name", RECORDED)
def test_what_the_real_package_sends_is_accepted(name: str) -> None:
    path, body = RECORDED[name]["path"], RECORDED[name]["body"]

    if path == "/api/show":
        assert read_shown_name(body) == "mock-model"
        return
    chat = decode_chat(body).adapt_to_other_backend().chat
    assert [tool.name for tool in chat.tools] == ["list_files", "read_file"]
    assert (chat.stream, chat.include_usage, chat.is_converted, chat.dropped) == (True, True, True, ())


def test_calls_and_results_of_a_history_belong_together() -> None:
    def call(name: str) -> JsonDict:
        return {"function": {"name": name, "arguments": {"a": [1, "ü"]}}}

    calls, *results, again, last = messages_of(
        {"role": "assistant", "tool_calls": [call("one"), call("two"), call("one")]},
        {"role": "tool", "tool_name": "two", "content": "2"},
        {"role": "tool", "tool_name": "one", "content": "1"},
        {"role": "tool", "content": "3"},
        {"role": "tool", "content": "no call"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "own", **call("one")}]},
        {"role": "tool", "tool_call_id": "own", "content": "4"},
    )

    assert [made["id"] for made in calls["tool_calls"]] == ["call_0", "call_1", "call_2"]
    assert json.loads(calls["tool_calls"][0]["function"]["arguments"]) == {"a": [1, "ü"]}
    assert calls["tool_calls"][0]["type"] == "function"
    assert [result.get("tool_call_id") for result in results] == ["call_1", "call_0", "call_2", None]
    assert (again["tool_calls"][0]["id"], last["tool_call_id"]) == ("own", "own")


def test_the_ids_of_calls_are_the_same_in_each_turn() -> None:
    call: JsonDict = {"role": "assistant", "tool_calls": [{"function": {"name": "one", "arguments": {}}}]}
    history: list[JsonDict] = [USER, call, {"role": "tool", "tool_name": "one", "content": "1"}]

    shorter, longer = messages_of(*history), messages_of(*history, call, USER)

    assert longer[:3] == shorter
    assert longer[3]["tool_calls"][0]["id"] != longer[1]["tool_calls"][0]["id"]


@pytest.mark.parametrize(
    ("image", "url"),
    [
        ("iVBORw0K", "data:image/png;base64,iVBORw0K"),
        ("/9j/4AAQ", "data:image/jpeg;base64,/9j/4AAQ"),
        ("R0lGODlh", "data:image/gif;base64,R0lGODlh"),
        ("UklGRg", "data:image/webp;base64,UklGRg"),
        ("data:image/png;base64,AA", "data:image/png;base64,AA"),
    ],
)
def test_an_image_becomes_a_part_of_its_type(image: str, url: str) -> None:
    (message,) = messages_of({"role": "user", "content": "what?", "images": [image]})

    assert message["content"] == [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": url}}]


def test_reasoning_and_unknown_fields_of_a_message_are_kept() -> None:
    (message,) = messages_of({"role": "assistant", "content": "hi", "thinking": "Hm.", "own": 1})

    assert message == {"role": "assistant", "content": "hi", "reasoning_content": "Hm.", "own": 1}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (SAMPLING, SAMPLING),
        ({"num_predict": 9}, {"max_tokens": 9}),
        ({"num_predict": -1}, {}),
        ({"num_predict": -2}, {}),
        ({"stop": "END"}, {"stop": "END"}),
        ({"stop": []}, {}),
        ({"mirostat": 2, "mirostat_tau": 5.0, "num_keep": 4}, {"mirostat": 2, "mirostat_tau": 5.0, "n_keep": 4}),
        ({"num_ctx": 9, "num_gpu": 1, "seed": None}, {}),
        (None, {}),
    ],
)  # fmt: skip
def test_options_become_fields_of_the_request(options: Any, expected: JsonDict) -> None:
    body = converted(options=options)

    rest = {key: value for key, value in body.items() if key not in ("messages", "stream", "stream_options", "model")}
    assert {key: value for key, value in rest.items() if value is not None} == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"format": "json"}, {"response_format": {"type": "json_object"}}),
        ({"format": ""}, {}),
        ({"format": {"type": "array"}}, {"response_format": {"type": "json_schema", "json_schema": SCHEMA}}),
        ({"think": True}, {"chat_template_kwargs": {"enable_thinking": True}}),
        ({"think": "high"}, {"reasoning_effort": "high"}),
        ({"think": None, "keep_alive": None, "options": {}}, {}),
        ({"tool_choice": "auto", "own": [1]}, {"tool_choice": "auto", "own": [1]}),
        ({"logprobs": True, "top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
    ],
)  # fmt: skip
def test_other_fields_are_converted_or_passed_on(fields: JsonDict, expected: JsonDict) -> None:
    body = converted(**fields)

    rest = {key: value for key, value in body.items() if key not in ("messages", "stream", "stream_options", "model")}
    assert rest == expected


def test_what_was_dropped_is_named_without_its_value() -> None:
    fields: JsonDict = {"options": {"num_ctx": 4711, "own": "secret"}, "keep_alive": "4711m", "truncate": True}
    dropped = decode_chat({"messages": [USER], **fields}).adapt_to_other_backend().chat.dropped

    assert [text.partition(":")[0] for text in dropped] == ["truncate", "options.num_ctx", "options.own", "keep_alive"]
    assert not any("4711" in text or "secret" in text for text in dropped)


def test_an_ollama_receives_its_own_fields() -> None:
    options = {"num_ctx": 8192, "mirostat": 1}
    body = decode_chat({"messages": [USER], "options": options, "keep_alive": 5, "think": "low"}).chat.body

    assert (body["options"], body["keep_alive"], body["think"]) == (options, 5, "low")


def test_a_tool_needs_no_type() -> None:
    chat = decode_chat({"messages": [USER], "tools": [{"function": {"name": "one"}}]}).chat

    assert [tool.name for tool in chat.tools] == ["one"]


def test_a_prompt_is_a_user_message_after_the_system_message() -> None:
    chat = decode_generate({"prompt": "hi", "system": "Be short.", "stream": False}).chat

    assert [*chat.messages] == [{"role": "system", "content": "Be short."}, {"role": "user", "content": "hi"}]
    assert not chat.stream


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"role": "usr", "content": "hi"}]}, "messages[0].role"),
        ({"messages": [USER, {"role": "user", "content": {}}]}, "messages[1].content"),
        ({"messages": [{**USER, "images": "x"}]}, "messages[0].images"),
        ({"messages": [{**USER, "thinking": 3}]}, "messages[0].thinking"),
        ({"messages": [NO_NAME]}, "messages[0].tool_calls[0].function.name"),
        ({"messages": [A_CALL]}, "messages[0].tool_calls[0].function.arguments"),
        ({"messages": [USER], "stream": "yes"}, "stream"),
        ({"messages": [USER], "model": 3}, "model"),
        ({"messages": [USER], "tools": [{"function": {}}]}, "tools[0].function.name"),
        ({"messages": [USER], "think": "much"}, "think"),
        ({"messages": [USER], "format": "xml"}, "format"),
        ({"messages": [USER], "options": {"top_p": "a"}}, "options.top_p"),
        ({"messages": [USER], "options": {"seed": True}}, "options.seed"),
    ],
)  # fmt: skip
def test_an_invalid_field_is_named(body: JsonDict, at: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decode_chat(body)

    assert refused.value.at == at


def test_embeddings_are_requested_in_openais_form() -> None:
    several = decode_embed({"model": "m", "input": ["a", "b"], "dimensions": 3, "truncate": True, "options": {}})
    single = decode_embeddings({"model": "m", "prompt": "a", "keep_alive": "5m"})

    assert several.body == {"input": ["a", "b"], "dimensions": 3, "model": "m"}
    assert [text.partition(":")[0] for text in several.dropped] == ["truncate"]
    assert single.body == {"input": "a", "model": "m"}
    assert [text.partition(":")[0] for text in single.dropped] == ["keep_alive"]


@pytest.mark.parametrize(
    ("decode", "body", "at"),
    [
        (decode_embed, {}, "input"),
        (decode_embed, {"input": [1]}, "input"),
        (decode_embed, {"input": "a", "dimensions": 0}, "dimensions"),
        (decode_embeddings, {"model": "m"}, "prompt"),
        (read_shown_name, {}, "model"),
    ],
)
def test_an_invalid_request_about_a_model_is_rejected_with_the_name_of_the_field(
    decode: Any, body: JsonDict, at: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decode(body)

    assert refused.value.at == at


@pytest.mark.parametrize("response", [None, [], {"data": {}}, {"data": [{"embedding": "AAAA"}]}])
def test_a_response_without_embeddings_is_an_error(response: Any) -> None:
    with pytest.raises(ValueError, match="no embeddings"):
        decode_embed({"input": "a"}).encode_response(response, 1)
