"""Loop detection for every period and any chunk boundaries; legitimate repetition is not a loop."""

from __future__ import annotations

import base64
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.guardrails.loops import Loop, LoopWatch
from tests.properties import examples

WORDS = [
    "the",
    "model",
    "reads",
    "a",
    "file",
    "and",
    "then",
    "writes",
    "what",
    "it",
    "found",
    "into",
    "another;",
    "why",
]


def prose(length: int, seed: int) -> str:
    random = Random(seed)
    return " ".join(random.choice(WORDS) for _ in range(length // 3))[:length]


def watched(text: str, cuts: list[int] | None = None) -> tuple[Loop | None, str]:
    """The loop that is found, and the text that was taken up to it."""
    watch = LoopWatch("text")
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts or []), len(text)]
    taken = "".join(watch.take(text[start:end]) for start, end in pairwise(places))
    return watch.loop, taken


def span(period: int) -> int:
    return 2_048 if period <= 16 else 8_192 if period <= 512 else 16_384


@examples(200)
@given(
    period=st.integers(1, 40) | st.integers(1, 2_048),
    before=st.integers(0, 30_000),
    seed=st.integers(0, 1000),
    letters=st.sampled_from(["ab", "ab \n", "abcdefgh ijk\n", "日本語 😀é"]),
)
def test_every_period_is_found_within_five_quarters_of_its_span(
    period: int, before: int, seed: int, letters: str
) -> None:
    random = Random(seed)
    unit = "".join(random.choices(letters, k=period))
    repeated = unit * (span(period) * 5 // 4 // period + 1)
    text = prose(before, seed) + repeated

    loop, taken = watched(text)

    assert loop is not None
    assert period % loop.period == 0  # "abab" is "ab" twice
    assert loop.start <= before  # prose may end as the unit does
    assert loop.start == 0 or text[loop.start - 1] != text[loop.start - 1 + loop.period]
    assert text[loop.start + loop.period : loop.end] == text[loop.start : loop.end - loop.period]
    assert loop.end <= before + span(period) * 5 // 4
    assert taken == text[: loop.end]


@examples(100)
@given(
    period=st.integers(1, 3_000),
    before=st.integers(0, 3_000),
    length=st.integers(0, 30_000),
    cuts=st.lists(st.integers(0, 40_000), max_size=60),
)
def test_the_detected_position_is_independent_of_the_chunk_boundaries(
    period: int, before: int, length: int, cuts: list[int]
) -> None:
    unit = prose(period, period)
    text = prose(before, 1) + (unit * (length // period + 1))[:length] + prose(500, 2)

    assert watched(text, cuts) == watched(text)


@examples(30)
@given(seed=st.integers(0, 10_000), length=st.integers(0, 60_000))
def test_prose_is_not_a_loop(seed: int, length: int) -> None:
    text = prose(length, seed)

    assert watched(text) == (None, text)


@pytest.mark.parametrize(
    "text",
    [
        "-" * 1_500,
        "| " + " | ".join(["---"] * 300) + " |",
        " " * 1_500 + "x",
        "\n" * 1_500,
        "la la la, " * 150,
        "I will not talk in class any more.\n" * 100,
        "All work and no play makes Jack a dull boy.\n" * 150,
        "".join(f"{number}. Do the same thing again.\n" for number in range(2_000)),
        "".join(f"    assert f({number}) == {number}\n" for number in range(2_000)),
        "".join(f"Verse {number}\nThe ants go marching, hurrah, hurrah.\n" for number in range(300)),
        "[" + ",\n".join(["[" + ", ".join(["0"] * 28) + "]"] * 28) + "]",
        base64.b64encode(bytes(1_000)).decode(),
        ("#" + "." * 78 + "#\n") * 80,
    ],
    ids=lambda text: text[:20],
)
def test_legitimate_repetition_is_not_a_loop(text: str) -> None:
    assert watched(text)[0] is None


@pytest.mark.parametrize("text", ["!" * 2_048, "the " * 512, "The answer is:\n" * 140])
def test_a_short_period_is_a_loop_after_two_thousand_characters(text: str) -> None:
    loop, _ = watched(text)

    assert loop is not None
    assert (loop.start, loop.end) == (0, 2_048)


def test_a_loop_is_described_by_its_position_without_its_text() -> None:
    loop, _ = watched("Well.\n" + "secret " * 1_000)

    assert str(loop) == "loop in text: 7 characters again and again from 6 to 2560"
    assert loop is not None
    assert ("Well.\n" + "secret " * 1_000)[: loop.cut_at] == "Well.\nsecret secret "
