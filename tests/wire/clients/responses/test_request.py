"""Requests of the Responses API become chat completions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forge_proxy.core.chat import ToolChoice, ToolGrammar
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.stored_responses import PreviousResponseNotFound
from forge_proxy.wire.clients.responses.reasoning import encode_reasoning
from forge_proxy.wire.clients.responses.request import ConvertedRequest, decode_request
from tests.wire.clients.responses.recorded import RECORDED_REQUESTS

JsonDict = dict[str, Any]
WEATHER: JsonDict = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather.",
    "strict": False,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
PATCH: JsonDict = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edit files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'},
}


def decode(*items: JsonDict, **fields: Any) -> ConvertedRequest:
    return decode_request({"model": "m", "input": [*items] or "Hi", **fields})


def sent(found: ConvertedRequest) -> list[Any]:
    return list(found.chat.messages)


def messages(*items: JsonDict, **fields: Any) -> list[Any]:
    return sent(decode(*items, **fields))


def user(text: str) -> JsonDict:
    return {"role": "user", "content": text}


def test_text_as_input_is_a_message_of_the_user() -> None:
    assert messages() == [{"role": "user", "content": "Hi"}]


def test_instructions_and_developer_items_become_messages_in_order() -> None:
    developer = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be short."}]}

    assert messages(developer, user("Hi"), instructions="You are a bot.") == [
        {"role": "system", "content": "You are a bot."},
        {"role": "developer", "content": "Be short."},
        {"role": "user", "content": "Hi"},
    ]


def test_reasoning_text_and_calls_of_one_turn_are_one_message() -> None:
    found = messages(
        user("Paris and Rome?"),
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Two."}]},
        {"type": "message", "role": "assistant", "id": "m", "status": "completed",
         "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
        {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city":"Paris"}'},
        {"type": "function_call", "call_id": "c2", "name": "get_weather", "arguments": '{"city": "Rome"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "rain"}]},
        tools=[WEATHER],
    )  # fmt: skip

    def call(call_id: str, arguments: str) -> JsonDict:
        return {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}

    assert found[1:] == [
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [call("c1", '{"city":"Paris"}'), call("c2", '{"city": "Rome"}')],
            "reasoning_content": "Two.",
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "c2", "content": "rain"},
    ]


def test_two_turns_of_the_model_stay_two_messages() -> None:
    said = [{"role": "assistant", "content": text} for text in ("One.", "Two.")]

    assert [message["content"] for message in messages(user("Go."), *said)] == ["Go.", "One.", "Two."]


def test_calls_with_their_results_in_between_stay_apart() -> None:
    def call(name: str) -> JsonDict:
        return {"type": "function_call", "call_id": name, "name": "f", "arguments": "{}"}

    def result(name: str) -> JsonDict:
        return {"type": "function_call_output", "call_id": name, "output": "x"}

    found = messages(user("Go."), call("a"), result("a"), call("b"), result("b"))

    assert [message["role"] for message in found] == ["user", "assistant", "tool", "assistant", "tool"]


def test_images_files_and_audio_are_converted() -> None:
    (message,) = messages(
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look."},
                {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "high"},
                {"type": "input_file", "file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            ],
        }
    )

    assert message["content"] == [
        {"type": "text", "text": "Look."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "high"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ]


def test_our_own_encrypted_reasoning_is_read_back_and_foreign_is_dropped() -> None:
    own = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "No."}],
           "encrypted_content": encode_reasoning("Yes. ü")}  # fmt: skip
    foreign = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAABo"}

    found = decode(user("Hi"), own, {"role": "assistant", "content": "Hello."}, user("And?"), foreign)

    assert sent(found)[1] == {"role": "assistant", "content": "Hello.", "reasoning_content": "Yes. ü"}
    assert len(sent(found)) == 3
    assert found.chat.dropped == ("input[4].encrypted_content: another service made it",)


def test_a_function_tool_keeps_its_schema() -> None:
    chat = decode(tools=[WEATHER], parallel_tool_calls=False).chat

    function = {name: WEATHER[name] for name in ("name", "description", "strict", "parameters")}
    assert chat.body["tools"] == [{"type": "function", "function": function}]
    assert (chat.tools[0].name, chat.tools[0].parameters) == ("get_weather", WEATHER["parameters"])
    assert not chat.parallel
    assert chat.is_converted


def test_a_custom_tool_becomes_a_function_with_one_text_and_its_grammar() -> None:
    (tool,) = decode(tools=[PATCH]).chat.tools

    assert tool.grammar == ToolGrammar("lark", 'start: "a"', "input")
    assert tool.description == "Edit files."
    schema: Any = tool.parameters
    assert schema["required"] == ["input"]
    assert schema["properties"]["input"]["type"] == "string"
    assert 'start: "a"' in schema["properties"]["input"]["description"]


def test_calls_of_custom_tools_in_the_history_are_calls_of_the_function() -> None:
    found = messages(
        user("Edit."),
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": 'say "ü"\n'},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "Done."},
        tools=[PATCH],
    )

    (call,) = found[1]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"input": 'say "ü"\n'}
    assert found[2] == {"role": "tool", "tool_call_id": "c1", "content": "Done."}


def test_tools_of_a_namespace_are_flattened_and_their_calls_too() -> None:
    inner = [{**WEATHER, "name": name} for name in ("search", "x" * 70)]
    namespace = {"type": "namespace", "name": "docs", "description": "Docs.", "tools": [*inner, PATCH]}

    found = decode(
        user("Hi"),
        {"type": "function_call", "call_id": "c1", "namespace": "docs", "name": "search", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "x"},
        tools=[namespace, WEATHER],
    )

    names = [tool.name for tool in found.chat.tools]
    assert [names[0], *names[2:]] == ["docs__search", "docs__apply_patch", "get_weather"]
    assert len(names[1]) == 64
    assert sent(found)[1]["tool_calls"][0]["function"]["name"] == "docs__search"
    restored = [found.tools.find(name) for name in names]
    assert [(tool.namespace, tool.name) for tool in restored if tool] == [
        ("docs", "search"), ("docs", "x" * 70), ("docs", "apply_patch"), (None, "get_weather"),
    ]  # fmt: skip


def test_two_names_that_become_equal_stay_apart() -> None:
    spaces = [{"type": "namespace", "name": name, "tools": [{**WEATHER, "name": "f"}]} for name in ("a", "a_")]

    found = decode(tools=spaces)

    assert [tool.name for tool in found.chat.tools] == ["a__f", "a__f_2"]
    assert found.tools.function_name("f", "a_") == "a__f_2"


def test_hosted_tools_are_dropped_and_reported() -> None:
    kinds = ("web_search", "file_search", "image_generation", "code_interpreter", "mcp", "computer_use_preview")
    hosted = [{"type": kind, "server_label": "secret"} for kind in kinds]

    chat = decode(tools=[*hosted, WEATHER, {"type": "shell", "environment": {"type": "container_auto"}}]).chat

    assert [tool.name for tool in chat.tools] == ["get_weather"]
    assert chat.dropped == (
        *(f"tools[{index}]: {kind} is not supported" for index, kind in enumerate(kinds)),
        "tools[7]: shell is not supported",
    )


CLIENT_CALLS: list[tuple[JsonDict, JsonDict, JsonDict]] = [
    (
        {"type": "local_shell"},
        {"type": "local_shell_call", "id": "lsh_1", "call_id": "c1", "status": "completed",
         "action": {"type": "exec", "command": ["ls", "-l"], "env": {}, "working_directory": "/tmp"}},
        {"command": ["ls", "-l"], "working_directory": "/tmp", "env": {}},
    ),
    (
        {"type": "shell", "environment": {"type": "local"}},
        {"type": "shell_call", "id": "sh_1", "call_id": "c1", "status": "completed",
         "action": {"commands": ["ls"], "timeout_ms": 5, "max_output_length": None}},
        {"commands": ["ls"], "timeout_ms": 5},
    ),
    (
        {"type": "apply_patch"},
        {"type": "apply_patch_call", "id": "ap_1", "call_id": "c1", "status": "completed",
         "operation": {"type": "update_file", "path": "a", "diff": "@@\n-a\n+b"}},
        {"type": "update_file", "path": "a", "diff": "@@\n-a\n+b"},
    ),
    (
        {"type": "tool_search", "execution": "client"},
        {"type": "tool_search_call", "id": "ts_1", "call_id": "c1", "status": "completed", "execution": "client",
         "arguments": {"query": "git"}},
        {"query": "git"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "item", "arguments"), CLIENT_CALLS, ids=lambda value: value.get("type"))
def test_tools_that_the_client_executes_are_functions(tool: JsonDict, item: JsonDict, arguments: JsonDict) -> None:
    found = decode(user("Hi"), item, tools=[tool])

    (call,) = sent(found)[1]["tool_calls"]
    assert [spec.name for spec in found.chat.tools] == [tool["type"]] == [call["function"]["name"]]
    assert json.loads(call["function"]["arguments"]) == arguments
    assert call["id"] == "c1"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"type": "local_shell_call_output", "id": "c1", "output": "a"}, "a"),
        (
            {"type": "shell_call_output", "call_id": "c1", "output": [{"stdout": "a", "stderr": ""}]},
            '[{"stdout": "a", "stderr": ""}]',
        ),
        ({"type": "apply_patch_call_output", "call_id": "c1", "status": "failed", "output": "no"}, "failed: no"),
        ({"type": "apply_patch_call_output", "call_id": "c1", "status": "completed"}, "completed"),
    ],
)
def test_results_of_tools_that_the_client_executes_are_texts(output: JsonDict, text: str) -> None:
    assert messages(user("Hi"), output)[1] == {"role": "tool", "tool_call_id": "c1", "content": text}


def test_items_may_offer_further_tools() -> None:
    found = decode(
        {"type": "additional_tools", "role": "developer", "tools": [WEATHER]},
        user("Hi"),
        {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"query": "patch"}},
        {"type": "tool_search_output", "call_id": "c1", "tools": [PATCH, WEATHER]},
    )

    assert [tool.name for tool in found.chat.tools] == ["get_weather", "apply_patch"]
    assert json.loads(sent(found)[2]["content"]) == {"tools": ["apply_patch", "get_weather"]}


@pytest.mark.parametrize("name", ["metadata", "reasoning", "text", "user"])
def test_what_the_response_cannot_repeat_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{name}: nested too deeply"):
        decode(user("Hi"), **{name: {"x": json.loads("[" * 600 + "]" * 600)}})


def test_items_of_hosted_tools_are_dropped_and_reported() -> None:
    kinds = ("web_search_call", "mcp_list_tools", "compaction", "compaction_trigger", "computer_call_output", "later")
    found = decode(user("Hi"), *({"type": kind, "id": "x"} for kind in kinds))

    assert len(found.chat.messages) == 1
    assert found.chat.dropped == tuple(f"input[{at}]: {kind} is not supported" for at, kind in enumerate(kinds, 1))


def test_parameters_are_those_of_a_chat_completion() -> None:
    schema = {"type": "object"}
    chat = decode(
        max_output_tokens=50,
        temperature=0.5,
        reasoning={"effort": "low", "summary": "auto"},
        text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}, "verbosity": "low"},
        include=["message.output_text.logprobs", "reasoning.encrypted_content"],
        top_logprobs=2,
        prompt_cache_key="k",
        min_p=0.1,
        stream=True,
        metadata={"a": "b"},
        client_metadata={"a": "b"},
        truncation="disabled",
    ).chat

    del_messages = {name: value for name, value in chat.body.items() if name != "messages"}
    assert del_messages == {
        "model": "m",
        "max_completion_tokens": 50,
        "temperature": 0.5,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}},
        "verbosity": "low",
        "logprobs": True,
        "top_logprobs": 2,
        "min_p": 0.1,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert (chat.limit, chat.stream, chat.include_usage, chat.dropped) == (50, True, True, ())


def test_what_no_model_server_can_do_is_reported() -> None:
    chat = decode(
        context_management=[{"type": "compaction"}],
        truncation="auto",
        include=["web_search_call.action.sources"],
        reasoning={"mode": "pro"},
        moderation={"model": "secret"},
        stream_options={"include_obfuscation": True},
        store=True,
    ).chat

    assert set(chat.dropped) == {
        "context_management is not supported",
        "moderation is not supported",
        "stream_options.include_obfuscation is not supported",
        "reasoning.mode is not supported",
        "include[0]: web_search_call.action.sources is not supported",
        "truncation auto: the daemon's own compaction applies",
        "store: this daemon stores no responses",
    }


NAMED = {"type": "function", "function": {"name": "get_weather"}}
CUSTOM = {"type": "function", "function": {"name": "apply_patch"}}


@pytest.mark.parametrize(
    ("choice", "expected", "written"),
    [
        (None, ToolChoice(), None),
        ("auto", ToolChoice("auto"), "auto"),
        ("none", ToolChoice("none"), "none"),
        ("required", ToolChoice("required"), "required"),
        ({"type": "function", "name": "get_weather"}, ToolChoice("required", ("get_weather",)), NAMED),
        ({"type": "custom", "name": "apply_patch"}, ToolChoice("required", ("apply_patch",)), CUSTOM),
        ({"type": "local_shell"}, ToolChoice("required", ("local_shell",)),
         {"type": "function", "function": {"name": "local_shell"}}),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [
                {"type": "function", "name": "get_weather"}, {"type": "custom", "name": "apply_patch"}]},
            ToolChoice("auto", ("get_weather", "apply_patch")),
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED, CUSTOM]}},
        ),
        (
            {"type": "function", "name": "f", "namespace": "n"}, ToolChoice("required", ("n__f",)),
            {"type": "function", "function": {"name": "n__f"}},
        ),
    ],
)  # fmt: skip
def test_each_form_of_tool_choice_is_converted(choice: Any, expected: ToolChoice, written: Any) -> None:
    namespace = {"type": "namespace", "name": "n", "tools": [{**WEATHER, "name": "f"}]}
    chat = decode(tools=[WEATHER, PATCH, {"type": "local_shell"}, namespace], tool_choice=choice).chat

    assert (chat.tool_choice, chat.body.get("tool_choice")) == (expected, written)


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"input": 5}, "input"),
        ({"input": []}, "input"),
        ({"input": [5]}, "input[0]"),
        ({"input": [{"role": "usr", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": 5}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
         "input[0].content[0].image_url"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
         "input[0].content[0].file_data"),
        ({"input": [{"role": "user", "content": [{"type": "video"}]}]}, "input[0].content[0].type"),
        ({"input": [{"type": "function_call", "name": "f", "arguments": 3}]}, "input[0].arguments"),
        ({"input": [{"type": "custom_tool_call", "name": "f"}]}, "input[0].input"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].id"),
        ({"input": [{"foo": 1}]}, "input[0].type"),
        ({"background": "yes"}, "background"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"messages": []}, "messages"),
        ({"max_tokens": 5}, "max_tokens"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}]}, "tools[0].tools[0].name"),
        ({"tools": [{**PATCH, "format": {"type": "grammar", "syntax": "ebnf", "definition": "a"}}]}, "tools[0].format"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "x"}}, "tool_choice"),
        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}, "tool_choice"),
        ({"tool_choice": "always"}, "tool_choice"),
        ({"text": {"format": {"type": "xml"}}}, "text.format"),
        ({"reasoning": "low"}, "reasoning"),
        ({"stream": "yes"}, "stream"),
        ({"conversation": 5}, "conversation"),
        ({"conversation": "c" * 65}, "conversation"),
        ({"conversation": "c", "previous_response_id": "r"}, "conversation"),
    ],
)  # fmt: skip
def test_an_invalid_field_is_named(fields: JsonDict, at: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        decode_request({"model": "m", "input": "Hi", **fields})

    assert raised.value.at == at


def test_without_a_store_no_response_can_be_continued() -> None:
    with pytest.raises(PreviousResponseNotFound, match="resp_1"):
        decode(previous_response_id="resp_1")


@pytest.mark.parametrize("body", RECORDED_REQUESTS.values(), ids=RECORDED_REQUESTS)
def test_every_recorded_request_is_accepted(body: JsonDict) -> None:
    chat = decode_request(body).chat

    assert set(chat.dropped) <= {"tools[8]: web_search is not supported"}
    assert set(chat.body) <= {
        "model", "messages", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls",
        "max_completion_tokens",
    }  # fmt: skip
    results = [item for item in body["input"] if item.get("type") == "function_call_output"]
    assert len([message for message in chat.messages if message["role"] == "tool"]) == len(results)
