"""The estimate: a quarter of the characters of texts and names, wherever they stand; pictures do not count."""

from __future__ import annotations

import pytest

from forge_proxy.core.estimate import estimate_tokens
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
