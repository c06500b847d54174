"""The estimate: a quarter of the characters of texts and names, wherever they stand; pictures do not count."""

from __future__ import annotations

import pytest

from forge_proxy.core.estimate import Calibration, estimate_tokens
from forge_proxy.core.jsontypes import Json


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
def test_texts_are_counted_wherever_they_stand(part: Json, tokens: int) -> None:
    assert estimate_tokens(part) == tokens


def test_parts_add_up() -> None:
    assert estimate_tokens("x" * 40, "x" * 40) == 20


def test_deep_nesting_is_no_trouble() -> None:
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
def test_an_estimate_is_set_right_by_reports(reports: list[tuple[int, int]], comes_to: int) -> None:
    calibration = Calibration()
    for estimated, reported in reports:
        calibration = calibration.updated(estimated, reported)

    assert calibration.to_tokens(100) == comes_to
    assert calibration.to_tokens(calibration.to_estimate(comes_to)) == comes_to
