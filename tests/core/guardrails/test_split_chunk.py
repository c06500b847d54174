"""Long chunks are split into pieces that are scanned quickly."""

from __future__ import annotations

import pytest

from forge_proxy.core.guardrails.split_chunk import split_chunk
from forge_proxy.core.rescue import estimate_parse_time
from forge_proxy.core.stream import Chunk, Delta

LONG = "<|1 " * 5_000
WORDS = "The weather in Oslo is fine. " * 30_000


def test_the_pieces_of_a_long_delta_have_the_same_content() -> None:
    chunk = Chunk(
        (Delta(0, LONG, "I think.", finish="stop"), Delta(1, "Hi.")),
        usage={"total_tokens": 1},
        head={"id": "x"},
        restarts=True,
    )

    pieces = [*split_chunk(chunk)]

    assert "".join(delta.text or "" for piece in pieces for delta in piece.deltas if delta.choice == 0) == LONG
    assert [delta.text for piece in pieces for delta in piece.deltas if delta.choice == 1] == ["Hi."]
    assert [delta.reasoning for piece in pieces for delta in piece.deltas].count("I think.") == 1
    assert pieces[0].deltas[0].reasoning == "I think."
    assert [piece.restarts for piece in pieces] == [True, *[False] * (len(pieces) - 1)]
    finishes = [delta.finish for piece in pieces for delta in piece.deltas if delta.choice == 0]
    assert finishes == [*[None] * (len(finishes) - 1), "stop"]
    assert (pieces[-1].usage, pieces[0].head) == ({"total_tokens": 1}, {"id": "x"})


@pytest.mark.parametrize("text", [LONG, WORDS, "<" * 50_000, WORDS + LONG], ids=["openers", "words", "odd", "both"])
@pytest.mark.parametrize("cut", [1, 64, 700, 10**6], ids="{} characters a delta".format)
def test_no_piece_is_much_work_however_the_text_was_chunked(text: str, cut: int) -> None:
    text = text[: 2_000 * min(cut, 500)]
    deltas = tuple(Delta(0, text[at : at + cut]) for at in range(0, len(text), cut))

    pieces = [*split_chunk(Chunk(deltas))]

    texts = ["".join(delta.text or "" for delta in piece.deltas) for piece in pieces]
    assert "".join(texts) == text
    assert max(map(estimate_parse_time, texts)) <= 2_000
    assert max(len(piece.deltas) for piece in pieces) <= 100


@pytest.mark.parametrize("text", ["", "Hi.", "The weather in Oslo is fine. " * 100, "<" * 150])
def test_a_chunk_that_is_scanned_quickly_is_not_changed(text: str) -> None:
    chunk = Chunk((Delta(0, text),))

    assert [*split_chunk(chunk)] == [chunk]


def test_many_deltas_that_are_scanned_quickly_stay_together() -> None:
    chunk = Chunk(tuple(Delta(0, "Hi. ") for _ in range(90)))

    assert [*split_chunk(chunk)] == [chunk]


def test_consecutive_texts_are_merged_and_other_deltas_stay_in_place() -> None:
    words = [Delta(0, "Hi. ") for _ in range(200)]
    deltas = (
        Delta(0, "", extra={"role": "assistant"}),
        *words,
        Delta(1, "So."),
        *words,
        Delta(0, "End", finish="stop"),
    )

    pieces = [*split_chunk(Chunk(deltas))]

    assert [delta.text for piece in pieces for delta in piece.deltas] == ["", "Hi. " * 200, "So.", "Hi. " * 200, "End"]
    assert pieces[0].deltas[0] == deltas[0]
    assert pieces[-1].deltas[-1] == deltas[-1]
