"""Messages requests as chat completion requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.wire.clients.messages import request as messages_request
from forge_proxy.wire.clients.messages.signatures import embed_blocks, embed_reasoning, sign_reasoning

JsonDict = dict[str, Any]
USER: JsonDict = {"role": "user", "content": "hi"}
TOOL: JsonDict = {"name": "now", "description": "The time.", "input_schema": {"type": "object"}}
FUNCTION: JsonDict = {
    "type": "function",
    "function": {"name": "now", "description": "The time.", "parameters": {"type": "object"}},
}
PNG: JsonDict = {"type": "base64", "media_type": "image/png", "data": "AA=="}
PNG_PART: JsonDict = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
CALL: JsonDict = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {"zone": "CET"}}
CALLED: JsonDict = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "toolu_1", "type": "function", "function": {"name": "now", "arguments": '{"zone":"CET"}'}}],
}


def decode_request(body: Any) -> ChatRequest:
    """The request, of a body that the type checker need not understand."""
    return messages_request.decode_request(body)


def user(*blocks: JsonDict) -> JsonDict:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: JsonDict) -> JsonDict:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str, **more: Any) -> JsonDict:
    return {"type": "text", "text": words, **more}


ATTACHED = text("The attachments of the result of toolu_1:")


def result(content: Any = "noon", **more: Any) -> JsonDict:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **more}


def tool_message(content: str) -> JsonDict:
    return {"role": "tool", "tool_call_id": "toolu_1", "content": content}


def nested(levels: int) -> JsonDict:
    """An object of this many levels."""
    value: JsonDict = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ([USER], [USER]),
        ([user(text("hi"))], [USER]),
        ([user(text("hi", cache_control={"type": "ephemeral"}))], [USER]),
        ([user(text("a"), text("b"))], [{"role": "user", "content": "a\nb"}]),
        ([USER, {"role": "system", "content": [text("Now.")]}], [USER, {"role": "system", "content": "Now."}]),
        (
            [user(text("see"), {"type": "image", "source": PNG})],
            [{"role": "user", "content": [text("see"), PNG_PART]}],
        ),
        (
            [user({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}})],
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}],
        ),
        ([USER, assistant(text("Yes."))], [USER, {"role": "assistant", "content": "Yes."}]),
        ([USER, assistant(CALL), user(result())], [USER, CALLED, tool_message("noon")]),
        (
            [USER, assistant(text("See:"), CALL), user(result())],
            [USER, {**CALLED, "content": "See:"}, tool_message("noon")],
        ),
        (
            [USER, assistant(CALL), user(text("Go on."), result([text("noon"), text("sharp")]))],
            [USER, CALLED, tool_message("noon\nsharp"), {"role": "user", "content": "Go on."}],
        ),
        ([USER, assistant(CALL), user(result(None))], [USER, CALLED, tool_message("")]),
        (
            [USER, assistant(CALL), user(result("no clock", is_error=True))],
            [USER, CALLED, tool_message("Error: no clock")],
        ),
        (
            [USER, assistant(CALL), user(result("<tool_use_error>no</tool_use_error>", is_error=True))],
            [USER, CALLED, tool_message("<tool_use_error>no</tool_use_error>")],
        ),
        (
            [USER, assistant(CALL), user(result([{"type": "image", "source": PNG}]), text("And?"))],
            [
                USER, CALLED, tool_message("[1 attached, in the next user message]"),
                {"role": "user", "content": [ATTACHED, PNG_PART, text("And?")]},
            ],
        ),
    ],
)  # fmt: skip
def test_messages_are_converted(sent: list[JsonDict], received: list[JsonDict]) -> None:
    chat = decode_request({"messages": sent})

    assert list(chat.messages) == received
    assert chat.dropped == ()


@pytest.mark.parametrize(
    ("document", "parts"),
    [
        (
            {"source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}, "title": "a.pdf"},
            [{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}}],
        ),
        (
            {"source": {"type": "url", "url": "https://x/a.pdf"}},
            [{"type": "file", "file": {"filename": "document.pdf", "file_data": "https://x/a.pdf"}}],
        ),
        ({"source": {"type": "text", "media_type": "text/plain", "data": "words"}, "title": "T"}, "T\nwords"),
        ({"source": {"type": "content", "content": [text("words")]}, "context": "C"}, "C\nwords"),
        ({"source": {"type": "content", "content": "words"}}, "words"),
    ],
)
def test_documents_are_files_or_text(document: JsonDict, parts: Any) -> None:
    chat = decode_request({"messages": [user({"type": "document", **document})]})

    assert chat.messages[0]["content"] == parts


def test_search_results_and_tool_references_are_text() -> None:
    found = {"type": "search_result", "title": "T", "source": "https://x", "content": [text("words")]}
    reference = {"type": "tool_reference", "tool_name": "now"}

    chat = decode_request({"messages": [USER, assistant(CALL), user(result([found, reference]))]})

    assert chat.messages[2]["content"] == "T\nhttps://x\nwords\nThe tool now is available."


def test_reasoning_is_returned_to_the_model() -> None:
    shown = {"type": "thinking", "thinking": "Hm.", "signature": sign_reasoning("Hm.")}
    hidden = {"type": "thinking", "thinking": "", "signature": embed_reasoning("So.")}
    unsigned = {"type": "thinking", "thinking": "Ah."}

    chat = decode_request({"messages": [USER, assistant(shown, hidden, unsigned, text("Yes."))]})

    assert chat.messages[1] == {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm.\nSo.\nAh."}


def test_the_reasoning_of_anthropics_api_stays_signed() -> None:
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "EqQBCgIYAhIM"}
    redacted = {"type": "redacted_thinking", "data": "Abc"}
    embedding = {"type": "thinking", "thinking": "", "signature": embed_blocks([signed, redacted])}

    direct = decode_request({"messages": [USER, assistant(signed, redacted, CALL)]})
    embedded = decode_request({"messages": [USER, assistant(embedding, CALL)]})

    assert direct.messages[1]["thinking_blocks"] == [signed, redacted]
    assert direct.messages[1]["reasoning_content"] == "Hm."
    assert embedded.messages[1]["thinking_blocks"] == [signed, redacted]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        ({"type": "tool", "name": "now"}, {"tool_choice": {"type": "function", "function": {"name": "now"}}}),
        (
            {"type": "any", "disable_parallel_tool_use": True},
            {"tool_choice": "required", "parallel_tool_calls": False},
        ),
    ],
)
def test_tool_choice_is_converted(choice: JsonDict, expected: JsonDict) -> None:
    chat = decode_request({"messages": [USER], "tools": [TOOL], "tool_choice": choice})

    assert {key: chat.body[key] for key in ("tool_choice", "parallel_tool_calls") if key in chat.body} == expected
    assert chat.body["tools"] == [FUNCTION]


@pytest.mark.parametrize("choice", [{"type": "auto"}, {"type": "none", "disable_parallel_tool_use": True}])
def test_a_free_tool_choice_without_tools_is_omitted(choice: JsonDict) -> None:
    assert set(decode_request({"messages": [USER], "tool_choice": choice}).body) == {"messages"}


@pytest.mark.parametrize(
    ("kind", "name", "properties"),
    [
        ("bash_20250124", "bash", {"command", "restart"}),
        ("text_editor_20250728", "str_replace_based_edit_tool", {"command", "path", "insert_text", "view_range"}),
        ("memory_20250818", "memory", {"command", "path", "old_path", "new_path"}),
        ("computer_20250124", "computer", {"action", "coordinate", "scroll_direction"}),
    ],
)
def test_a_client_tool_is_a_function_with_its_schema(kind: str, name: str, properties: set[str]) -> None:
    chat = decode_request({"messages": [USER], "tools": [{"type": kind, "name": name}]})

    (tool,) = chat.tools
    assert tool.name == name
    schema: Any = tool.parameters
    assert properties <= set(schema["properties"])
    assert chat.dropped == ()


def test_only_early_text_editors_can_undo() -> None:
    def commands(version: str) -> Any:
        tools = [{"type": f"text_editor_{version}", "name": "edit"}]
        schema: Any = decode_request({"messages": [USER], "tools": tools}).tools[0].parameters
        return schema["properties"]["command"]["enum"]

    assert "undo_edit" in commands("20250124")
    assert "undo_edit" not in commands("20250728")


def test_server_tools_are_dropped_and_reported() -> None:
    server = [{"type": kind, "name": "x"} for kind in ("web_search_20250305", "code_execution_20250825")]
    toolset = {"type": "mcp_toolset", "mcp_server_name": "s"}

    chat = decode_request({"messages": [USER], "tools": [*server, TOOL, toolset]})

    assert [tool.name for tool in chat.tools] == ["now"]
    assert chat.dropped == (
        "tools[0]: web_search_20250305 runs on Anthropic's servers only",
        "tools[1]: code_execution_20250825 runs on Anthropic's servers only",
        "tools[3]: mcp_toolset runs on Anthropic's servers only",
    )


def test_a_deferred_tool_is_offered_after_the_others_once_the_history_refers_to_it() -> None:
    tools = [{**TOOL, "name": "late", "defer_loading": True}, {**TOOL, "name": "never", "defer_loading": True}, TOOL]
    found = user(result([{"type": "tool_reference", "tool_name": "late"}]))

    before = decode_request({"messages": [USER], "tools": tools})
    after = decode_request({"messages": [USER, assistant(CALL), found], "tools": tools})
    searched = decode_request(
        {"messages": [USER], "tools": [*tools, {"type": "tool_search_tool_bm25_20251119", "name": "s"}]}
    )

    assert [tool.name for tool in before.tools] == ["now"]
    assert [tool.name for tool in after.tools] == ["now", "late"]
    assert [tool.name for tool in searched.tools] == ["late", "never", "now"]


@pytest.mark.parametrize(
    ("sent", "expected", "dropped"),
    [
        ({"thinking": {"type": "adaptive"}}, {}, []),
        ({"thinking": {"type": "disabled"}}, {"chat_template_kwargs": {"enable_thinking": False}}, []),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
            {"chat_template_kwargs": {"enable_thinking": True}},
            ["thinking.budget_tokens"],
        ),
        ({"thinking": {"type": "between_tools"}}, {}, ["thinking.type"]),
        ({"output_config": {"effort": "medium"}}, {"reasoning_effort": "medium"}, []),
        ({"output_config": {"effort": "max"}}, {"reasoning_effort": "high"}, ["output_config.effort"]),
        ({"output_config": {"effort": None, "task_budget": {}}}, {}, ["output_config.task_budget"]),
        (
            {"output_config": {"effort": "high"}, "thinking": {"type": "disabled"}},
            {"chat_template_kwargs": {"enable_thinking": False}},
            [],
        ),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "response", "strict": True, "schema": {"type": "object"}},
                }
            },
            [],
        ),
        ({"stop_sequences": ["###"]}, {"stop": ["###"]}, []),
        ({"max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 40}, None, []),
        ({"max_tokens": 0}, {"max_tokens": 1}, ["max_tokens"]),
        ({"metadata": {"user_id": "u"}}, {"user": "u"}, []),
        ({"service_tier": "auto", "speed": "standard"}, {}, []),
        ({"service_tier": "standard_only", "speed": "fast"}, {}, ["speed", "service_tier"]),
        ({"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}, {}, []),
        (
            {"context_management": {"edits": [{"type": "compact_20260112"}]}},
            {},
            ["context_management.edits[0]"],
        ),
        ({"betas": ["x"], "mcp_servers": []}, {}, ["betas", "mcp_servers"]),
        ({"cache_control": {"type": "ephemeral"}}, {}, []),
    ],
)
def test_options_are_converted_or_reported(sent: JsonDict, expected: JsonDict | None, dropped: list[str]) -> None:
    chat = decode_request({"messages": [USER], **sent})

    assert {key: value for key, value in chat.body.items() if key != "messages"} == (
        sent if expected is None else expected
    )
    assert [what.partition(": ")[0] for what in chat.dropped] == dropped


def test_anthropics_own_fields_stay_beside_the_body() -> None:
    sent: JsonDict = {
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "output_config": {"effort": "max"},
        "speed": "fast",
    }
    marked = user(text("hi", cache_control={"type": "ephemeral"}))

    chat = decode_request({"messages": [marked], **sent})

    assert chat.anthropic == {**sent, "cache_control": {"type": "ephemeral"}}


def test_blocks_of_server_tools_in_a_history_are_dropped_and_reported_once() -> None:
    block = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}

    chat = decode_request({"messages": [USER, assistant(block, text("Yes."))]})

    assert chat.messages[1] == {"role": "assistant", "content": "Yes."}
    assert chat.dropped == ("messages[1].content[0]: server_tool_use blocks are not supported",)


def test_no_more_than_a_few_dozen_parts_are_reported() -> None:
    block = {"type": "container_upload", "file_id": "f"}

    chat = decode_request({"messages": [user(text("hi"), *[block] * 1000)]})

    assert len(chat.dropped) == 32


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [], "system": "s"}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [3]}, "messages[0]"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "usr", "content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [user(text("a")), {"role": "user", "content": ["b"]}]}, "messages[1].content[0]"),
        ({"messages": [user({"text": "a"})]}, "messages[0].content[0].type"),
        ({"messages": [user({"type": "text"})]}, "messages[0].content[0]"),
        ({"messages": [user({"type": "image", "source": {"type": "b"}})]}, "messages[0].content[0].source"),
        ({"messages": [assistant({"type": "tool_use", "name": "x"})]}, "messages[0].content[0].input"),
        ({"messages": [assistant({"type": "tool_use", "input": {}})]}, "messages[0].content[0].name"),
        ({"messages": [USER], "system": 3}, "system"),
        ({"messages": [USER], "tools": {}}, "tools"),
        ({"messages": [USER], "tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"messages": [USER], "tools": [{"name": "x"}]}, "tools[0].input_schema"),
        ({"messages": [USER], "tools": [{"name": "x" * 300, "input_schema": {}}]}, "tools[0].name"),
        ({"messages": [USER], "tools": [TOOL] * 513}, "tools"),
        ({"messages": [USER], "tool_choice": {"type": "any"}}, "tool_choice"),
        ({"messages": [USER], "tool_choice": "any"}, "tool_choice"),
        ({"messages": [USER], "tools": [TOOL], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name"),
        ({"messages": [USER], "tools": [TOOL], "tool_choice": {"type": "all"}}, "tool_choice"),
        ({"messages": [USER], "max_tokens": "many"}, "max_tokens"),
        ({"messages": [USER], "max_tokens": -1}, "max_tokens"),
        ({"messages": [USER], "stop_sequences": "###"}, "stop_sequences"),
        ({"messages": [USER], "stream": "yes"}, "stream"),
        ({"messages": [USER], "thinking": True}, "thinking"),
        ({"messages": [USER], "thinking": {"type": "x"}}, "thinking.type"),
        ({"messages": [USER], "output_config": {"effort": "x"}}, "output_config.effort"),
        ({"messages": [USER], "output_config": {"format": {"type": "text"}}}, "output_config.format"),
        ({"messages": [USER], "output_config": 3}, "output_config"),
        ({"messages": [assistant({**CALL, "input": nested(300)})]}, "messages[0].content[0].input"),
        ({"messages": [USER], "thread": {"type": "create"}}, "thread"),
    ],
)
def test_an_invalid_request_is_refused_with_the_path_of_the_field(body: JsonDict, at: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_request(body)

    assert caught.value.at == at


@pytest.mark.parametrize("damaged", ["forge-proxy.1.z.AAAA", "forge-proxy.1.z.%", "forge-proxy.1.", "forge-proxy.1.z."])
def test_a_damaged_signature_of_our_own_has_no_content(damaged: str) -> None:
    block = {"type": "thinking", "thinking": "", "signature": damaged}

    chat = decode_request({"messages": [USER, assistant(block, text("Yes."))]})

    assert chat.messages[1] == {"role": "assistant", "content": "Yes."}
    assert json.dumps(chat.body)


def test_blocks_in_blocks_are_read_to_the_depth_that_the_api_has() -> None:
    found: JsonDict = text("words")
    for _ in range(900):
        found = {"type": "search_result", "title": "T", "source": "s", "content": [found]}
    marked: JsonDict = text("a", cache_control={"type": "ephemeral"})
    for _ in range(900):
        marked = {"type": "tool_result", "content": [marked]}

    chat = decode_request({"messages": [user(found)], "system": [{**text("s"), "content": [marked]}]})

    assert chat.messages[1]["content"] == "T\ns\n"
    assert chat.dropped == ("messages[0].content[0].content[0]: search_result blocks are not supported",)
    assert chat.anthropic == {}
