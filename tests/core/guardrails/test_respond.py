"""The respond tool: its name, its message, and the message decoded from a stream."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.guardrails.respond import MessageDecoder, read_message, respond_tool
from forge_proxy.core.guardrails.schema.compiled import compile_validator
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import ToolCall
from tests.properties import LENGTHS, OBJECTS, TEXTS, cut, examples

GOOD_ESCAPES = ('\\"', "\\\\", "\\/", "\\b", "\\n", "\\u00e9", "\\uD83D\\uDE00")
BAD_ESCAPES = ("\\x", "\\u12g4", "\\u0x1f", "\\u+123", "\\u 123", "\\u1_23", "\\ud83d", "\\ude00", "\\ud83d\\u0041")
CUT_ESCAPES = ("\\", "\\u", "\\u12", "\\ud83d\\", "\\ud83d\\u")
ESCAPES = st.sampled_from([*GOOD_ESCAPES, *BAD_ESCAPES, *CUT_ESCAPES, '"', "😀", "\n"])
OPENINGS = st.sampled_from(['{"message": "', ' {\n"message"\t:"', "{", '{"message"', '{"text": "', '"message": "', ""])


def decoded(pieces: list[str]) -> str:
    decoder = MessageDecoder()
    return "".join(decoder.feed(piece) for piece in pieces)


@examples(300)
@given(opening=OPENINGS, inside=st.lists(ESCAPES | TEXTS, max_size=8).map("".join), lengths=LENGTHS)
def test_the_message_is_independent_of_the_chunk_boundaries(opening: str, inside: str, lengths: list[int]) -> None:
    text = opening + inside

    whole = decoded([text])

    assert decoded(cut(text, lengths)) == whole
    assert decoded(list(text)) == whole


@examples(300)
@given(
    message=TEXTS,
    others=OBJECTS,
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 0, 4]),
    lengths=LENGTHS,
)
def test_the_decoded_message_equals_the_parsed_json(
    message: str, others: dict[str, Json], ascii_only: bool, indent: int | None, lengths: list[int]
) -> None:
    others.pop("message", None)
    text = json.dumps({"message": message, **others}, ensure_ascii=ascii_only, indent=indent)

    assert decoded(cut(text, lengths)) == message
    assert read_message(ToolCall("respond", text)) == message


@examples(200)
@given(message=TEXTS, lengths=LENGTHS, until=st.integers(0, 60))
def test_the_decoded_text_is_a_prefix_of_the_message(message: str, lengths: list[int], until: int) -> None:
    text = json.dumps({"message": message})

    assert message.startswith(decoded(cut(text[:until], lengths)))


@pytest.mark.parametrize(
    "text",
    [
        '{"text": "a", "message": "b"}',
        '{"Message": "a"}',
        '{"message": {"message": "a"}}',
        '{"message": ["a"]}',
        '{"message": null}',
        '[{"message": "a"}]',
        '"message": "a"',
        "{" + " " * 17 + '"message": "a"}',
        "a",
    ],
)
def test_nothing_is_decoded_unless_message_is_the_first_key(text: str) -> None:
    assert decoded([text]) == decoded(list(text)) == ""


@pytest.mark.parametrize("wrong", BAD_ESCAPES)
def test_decoding_stops_at_invalid_json(wrong: str) -> None:
    assert decoded([f'{{"message": "as far as this{wrong} and not further"}}']) == "as far as this"


def test_an_incomplete_character_is_never_released() -> None:
    decoder = MessageDecoder()

    steps = [decoder.feed(piece) for piece in ('{"message": "a\\', "u00", "e9\\ud83d\\u", "de", '00"', "}")]

    assert steps == ["a", "", "é", "", "😀", ""]


def test_a_complete_escape_is_released_at_once() -> None:
    decoder = MessageDecoder()

    steps = [decoder.feed(piece) for piece in ('{"message": "', "\\u00e9", "\\ud83d\\ude00", "\\n")]

    assert steps == ["", "é", "😀", "\n"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('{"message": "hi"}', "hi"),
        ('{"message": ""}', ""),
        ('{"text": "hi"}', "hi"),
        ('{"text": "hi", "tone": "kind"}', None),
        ('{"message": null, "text": "hi"}', None),
        ('{"message": ["hi"]}', None),
        ('{"message": 7}', None),
        ("{}", None),
        ('"hi"', None),
        ('{"message": "hi', None),
        ("", None),
    ],
)
def test_a_single_string_is_the_message_under_any_key(arguments: str, message: str | None) -> None:
    assert read_message(ToolCall("respond", arguments)) == message


def test_the_respond_tool_gets_the_first_free_name() -> None:
    taken = ["respond", "respond_to_user", "send_response_to_user", "forge_respond", "forge_respond_2"]

    assert [respond_tool(taken[:count]).name for count in range(6)] == [*taken, "forge_respond_3"]


def test_the_schema_of_the_respond_tool_is_valid() -> None:
    schema = compile_validator(respond_tool([]).parameters)

    assert schema is not None
    assert schema.is_valid({"message": "hi"})
    assert not schema.is_valid({})
