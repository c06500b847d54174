"""Token estimates: a quarter of the characters of all strings and names; images do not count."""

from __future__ import annotations

import json

import orjson
import pytest

from forge_proxy.core.estimate import Calibration, estimate_prompt_tokens, estimate_tokens
from forge_proxy.core.jsontypes import Json, JsonObject

DEEP: Json = json.loads("[" * 600 + "]" * 600)


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (None, 0),
        (7, 0),
        ("x" * 400, 100),
        ([{"role": "user", "content": "x" * 385}], 100),
        ([{"content": [{"type": "text", "text": "x" * 381}]}], 100),
        ([{"content": [{"image_url": {"url": "data:" + "x" * 4000}}]}], 4),
        ([{"content": [{"input_audio": {"data": "x" * 4000}}]}], 4),
    ],
)
def test_strings_are_counted_at_any_depth(part: Json, tokens: int) -> None:
    assert estimate_tokens(part) == tokens


def test_the_estimate_of_several_parts_is_their_sum() -> None:
    assert estimate_tokens("x" * 40, "x" * 40) == 20


def test_deep_nesting_raises_no_recursion_error() -> None:
    part: Json = "x" * 400
    for _ in range(5000):
        part = [part]

    assert estimate_tokens(part) == 100


@pytest.mark.parametrize(
    ("reports", "comes_to"),
    [
        ([], 100),
        ([(100, 200)], 200),
        ([(100, 200), (100, 100)], 150),
        ([(100, 5000)], 800),  # pictures, perhaps
        ([(100, 10)], 100),  # only what was not in the cache, perhaps
        ([(0, 10)], 100),
    ],
)
def test_reported_counts_calibrate_the_estimate(reports: list[tuple[int, int]], comes_to: int) -> None:
    calibration = Calibration()
    for estimated, reported in reports:
        calibration = calibration.update(estimated, reported)

    assert calibration.to_tokens(100) == comes_to
    assert calibration.to_tokens(calibration.to_estimate(comes_to)) == comes_to


def test_tools_count_as_the_json_that_templates_render() -> None:
    messages: JsonObject = {"role": "user", "content": "x" * 400}
    tools: list[Json] = [{"type": "function", "function": {"name": "t" * 40, "parameters": {"enum": [1, 2, 3]}}}]

    tokens = estimate_prompt_tokens([messages], tools)

    assert tokens == estimate_tokens([messages]) + len(orjson.dumps(tools)) // 4
    assert estimate_prompt_tokens([messages], None) == estimate_tokens([messages])


@pytest.mark.parametrize("value", [10**30, DEEP], ids=["a huge integer", "deep"])
def test_tools_that_cannot_be_written_are_searched(value: Json) -> None:
    tools: list[Json] = [{"name": "a" * 80, "x": value}]

    assert estimate_prompt_tokens([], tools) == estimate_tokens(tools) == 21
