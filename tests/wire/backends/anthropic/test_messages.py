"""A conversation in Anthropic's format: nothing is lost, each call has its result, the roles alternate."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.wire.backends.anthropic.messages import encode_history
from forge_proxy.wire.backends.anthropic.tools import ToolNames

JsonDict = dict[str, Any]
MARK = {"type": "ephemeral"}
NOT_RUN = {"type": "tool_result", "content": "[NotRun] This call was not run.", "is_error": True}
ORPHAN = "[The result of a call that is not in this conversation]"


def says(role: str, content: Any, **fields: Any) -> JsonDict:
    return {"role": role, "content": content, **fields}


def calls(*ids: str, content: Any = None, **fields: Any) -> JsonDict:
    made = [{"id": one, "type": "function", "function": {"name": "now", "arguments": '{"a": 1}'}} for one in ids]
    return says("assistant", content, tool_calls=made, **fields)


def result(identity: str, content: Any = "r", **fields: Any) -> JsonDict:
    return says("tool", content, tool_call_id=identity, **fields)


def text(words: str, **fields: Any) -> JsonDict:
    return {"type": "text", "text": words, **fields}


def use(identity: str) -> JsonDict:
    return {"type": "tool_use", "id": identity, "name": "now", "input": {"a": 1}}


def used(identity: str, content: Any = "r", **fields: Any) -> JsonDict:
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **fields}


def written(*messages: Any, reasoning: Any = "as-sent") -> tuple[list[Any], list[tuple[str, Any]]]:
    out = encode_history(messages, ToolNames([]), reasoning)
    encoded: list[Any] = out.messages
    return out.system, [(message["role"], message["content"]) for message in encoded]


@pytest.mark.parametrize(
    ("messages", "system", "conversation"),
    [
        (
            [says("system", "s"), says("developer", [text("d")]), says("user", "u")],
            [text("s"), text("d")],
            [("user", [text("u")])],
        ),
        # at its head a later one would change the prompt that was read before
        ([says("user", "u"), says("system", "s")], [], [("user", [text("u"), text("s")])]),
        ([says("system", "s")], [], [("user", [text("s")])]),
        (
            [says("user", "u"), says("user", "v"), says("assistant", "a"), says("assistant", "b"), says("user", "w")],
            [],
            [("user", [text("u"), text("v")]), ("assistant", [text("a"), text("b")]), ("user", [text("w")])],
        ),
        ([says("assistant", "a")], [], [("user", [text("Go on.")]), ("assistant", [text("a")])]),
        ([says("user", "u"), says("assistant", "a \n")], [], [("user", [text("u")]), ("assistant", [text("a")])]),
        (
            [says("user", "u"), says("assistant", " "), says("user", None), says("user", [text(""), text("v")])],
            [],
            [("user", [text("u"), text("v")])],
        ),
        (
            [says("user", "u"), calls("1", "2", content="see"), result("2", "b"), result("1", ""), says("user", "v")],
            [],
            [
                ("user", [text("u")]),
                ("assistant", [text("see"), use("1"), use("2")]),
                ("user", [used("2", "b"), used("1", []), text("v")]),
            ],
        ),
    ],
)
def test_a_conversation_is_encoded(messages: list[JsonDict], system: list[Any], conversation: list[Any]) -> None:
    assert written(*messages) == (system, conversation)


@pytest.mark.parametrize(
    ("messages", "conversation"),
    [
        # without a result: at the end, before other text, before another answer
        ([calls("1")], [[use("1")], [{**NOT_RUN, "tool_use_id": "1"}]]),
        ([calls("1"), says("user", "v")], [[use("1")], [{**NOT_RUN, "tool_use_id": "1"}, text("v")]]),
        (
            [calls("1", "2"), result("2"), says("assistant", "a"), result("1", "late")],
            [
                [use("1"), use("2")],
                [used("2"), {**NOT_RUN, "tool_use_id": "1"}],
                [text("a")],
                [text(ORPHAN), text("late")],
            ],
        ),
        # text between a call and its result is moved behind the result
        ([calls("1"), says("user", "v"), result("1")], [[use("1")], [used("1"), text("v")]]),
        ([calls("1"), result("1"), result("1", "again")], [[use("1")], [used("1"), text(ORPHAN), text("again")]]),
        # ids that the server rejects, and repeated ids
        ([calls("f.x:0"), result("f.x:0")], [[use("f_x_0")], [used("f_x_0")]]),
        ([calls("1"), result("1"), calls("1"), result("1")], [[use("1")], [used("1")], [use("1_2")], [used("1_2")]]),
    ],
)
def test_each_call_has_its_result(messages: list[JsonDict], conversation: list[Any]) -> None:
    _, out = written(says("user", "u"), *messages)

    assert [content for _, content in out[1:]] == conversation
    assert [role for role, _ in out[1:]] == ["assistant", "user"] * (len(conversation) // 2)


SIGNED = {"type": "thinking", "thinking": "hm", "signature": "s"}
SEALED = {"type": "redacted_thinking", "data": "x"}


@pytest.mark.parametrize(
    ("reasoning", "thoughts", "kept"),
    [
        ("as-sent", [SIGNED, SEALED], [SIGNED, SEALED]),
        (
            "as-sent",
            [{"type": "thinking", "thinking": "hm"}, {"type": "thinking", "thinking": "", "signature": ""}],
            [],
        ),
        ("none", [SIGNED, SEALED], []),
    ],
)
def test_reasoning_is_sent_back_only_with_its_signature(reasoning: str, thoughts: list[Any], kept: list[Any]) -> None:
    message = says(
        "assistant", "a", reasoning_content="hm", thinking_blocks=[{"index": 0, **block} for block in thoughts]
    )

    assert written(says("user", "u"), message, reasoning=reasoning)[1][1] == ("assistant", [*kept, text("a")])


def test_cache_control_stays_on_the_block_that_has_it() -> None:
    call = calls("1", content=[text("a", cache_control=MARK)])
    call["tool_calls"][0]["cache_control"] = MARK
    system, messages = written(
        says("system", [text("s", cache_control=MARK), text("t")]),
        says("user", "u", cache_control=MARK),
        call,
        result("1", [text("r", cache_control=MARK)]),
        says("user", [text("v"), {"type": "image_url", "image_url": {"url": "http://x/i"}, "cache_control": MARK}]),
    )

    image = {"type": "image", "source": {"type": "url", "url": "http://x/i"}, "cache_control": MARK}
    assert system == [text("s", cache_control=MARK), text("t")]
    assert [content for _, content in messages] == [
        [text("u", cache_control=MARK)],
        [text("a", cache_control=MARK), {**use("1"), "cache_control": MARK}],
        [used("1", cache_control=MARK), text("v"), image],
    ]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO", "detail": "low"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
        ),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE", "filename": "a.pdf"}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
                "title": "a.pdf",
            },
        ),
        ({"type": "refusal", "refusal": "no"}, text("no")),
    ],
)
def test_parts_become_blocks_also_in_results(part: JsonDict, block: JsonDict) -> None:
    _, messages = written(says("user", [part]), calls("1"), result("1", [text("see"), part]))

    assert messages[0] == ("user", [block])
    assert messages[2] == ("user", [used("1", [text("see"), block])])


@pytest.mark.parametrize(
    ("part", "at"),
    [
        ({"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}}, "messages[1].content[0]"),
        ({"type": "image_url", "image_url": {"url": "ftp://x"}}, "messages[1].content[0].image_url.url"),
        ({"type": "file", "file": {"file_id": "f"}}, "messages[1].content[0]"),
    ],
)
def test_what_there_is_no_block_for_is_named(part: JsonDict, at: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        written(says("user", "u"), says("user", [part]))

    assert caught.value.at == at


def test_a_longer_conversation_begins_as_the_shorter_one_did() -> None:
    turns = [says("system", "s"), says("user", "u"), calls("1"), result("1"), says("assistant", "a"), says("user", "v")]

    whole = written(*turns)

    for length in (2, 4, 5):
        system, messages = written(*turns[:length])
        assert system == whole[0]
        assert messages[:-1] == whole[1][: len(messages) - 1]
