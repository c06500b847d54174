"""Merging of delta fields: what is continued, what is replaced, and at what cost."""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time

import pytest

from forge_proxy.core.fields import FieldsBuilder
from forge_proxy.core.jsontypes import Json, JsonObject


def merge(pieces: Sequence[JsonObject]) -> dict[str, Json]:
    builder = FieldsBuilder()
    for piece in pieces:
        builder.add(piece)
    return builder.fields()


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ([{"refusal": "I "}, {"refusal": "will not"}], {"refusal": "I will not"}),
        ([{"role": "assistant"}, {"role": "assistant"}], {"role": "assistant"}),
        ([{"refusal": None}, {"refusal": "no"}, {"refusal": None}], {"refusal": "no"}),
        ([{"content": [{"token": "a"}]}, {"content": [{"token": "b"}]}], {"content": [{"token": "a"}, {"token": "b"}]}),
        (
            [{"function_call": {"name": "f", "arguments": '{"a"'}}, {"function_call": {"arguments": ": 1}"}}],
            {"function_call": {"name": "f", "arguments": '{"a": 1}'}},
        ),
        (
            [
                {"reasoning_details": [{"index": 0, "type": "text", "text": "a"}]},
                {"reasoning_details": [{"index": 1, "text": "x"}, {"index": 0, "type": "text", "text": "b"}]},
            ],
            {"reasoning_details": [{"index": 0, "type": "text", "text": "ab"}, {"index": 1, "text": "x"}]},
        ),
        ([{"n": 1}, {"n": 2}, {"n": [3]}], {"n": [3]}),
        ([{"audio": {"data": "AA"}}, {"audio": "gone"}], {"audio": "gone"}),
    ],
)
def test_strings_lists_and_objects_in_other_fields_are_continued(
    pieces: list[JsonObject], whole: dict[str, Json]
) -> None:
    assert merge(pieces) == whole


def test_merging_does_not_modify_its_inputs() -> None:
    first: dict[str, Json] = {"a": [{"index": 0, "text": "x"}], "b": {"c": "d"}}

    whole = merge([first, {"a": [{"index": 0, "text": "y"}], "b": {"c": "e"}}])

    assert first == {"a": [{"index": 0, "text": "x"}], "b": {"c": "d"}}
    assert whole == {"a": [{"index": 0, "text": "xy"}], "b": {"c": "de"}}


@pytest.mark.parametrize("index", [[], {}, "0", 1.5, None])
def test_an_index_that_is_not_an_integer_is_ignored(index: Json) -> None:
    item: JsonObject = {"index": index, "text": "x"}

    assert merge([{"parts": [item]}, {"parts": [item]}]) == {"parts": [item, item]}


@pytest.mark.long
@pytest.mark.parametrize(
    "piece",
    [
        {"logprobs": {"content": [{"token": "x", "logprob": -0.5, "top_logprobs": []}]}},
        {"refusal": "some words "},
        {"reasoning_details": [{"index": 0, "text": "some words "}]},
    ],
    ids=["list", "text", "text in a list"],
)
def test_the_cost_of_a_piece_is_independent_of_the_fields_so_far(piece: JsonObject) -> None:
    def seconds(times: int, count: int) -> float:
        before = process_time()
        for _ in range(times):
            merge([piece] * count)
        return process_time() - before

    seconds(1, 1000)
    few, many = min(seconds(32, 2_000) for _ in range(2)), min(seconds(1, 64_000) for _ in range(2))

    assert many < 8 * few  # linear is as much, quadratic 32 times; the clock may advance in steps of 10 ms
