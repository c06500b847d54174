"""A long text is scanned in pieces, and of several such requests one continues in each round of the event loop."""

from __future__ import annotations

import asyncio

import pytest

from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.pacing import Pace, Turns, pieces_of

LONG = "<|1 " * 5_000


def test_a_long_delta_comes_in_pieces_that_are_the_same_in_all() -> None:
    chunk = Chunk(
        (Delta(0, LONG, "I think.", finish="stop"), Delta(1, "Hi.")),
        usage={"total_tokens": 1},
        head={"id": "x"},
        anew=True,
    )

    pieces = [*pieces_of(chunk)]

    assert all(len(delta.text or "") <= 500 for piece in pieces for delta in piece.deltas)
    assert "".join(delta.text or "" for piece in pieces for delta in piece.deltas if delta.choice == 0) == LONG
    assert [delta.text for piece in pieces for delta in piece.deltas if delta.choice == 1] == ["Hi."]
    assert [piece.deltas[0].reasoning for piece in pieces].count("I think.") == 1
    assert pieces[0].deltas[0].reasoning == "I think."
    assert [piece.anew for piece in pieces] == [True, *[False] * (len(pieces) - 1)]
    assert [piece.deltas[0].finish for piece in pieces] == [*[None] * (len(pieces) - 1), "stop"]
    assert (pieces[-1].usage, pieces[0].head) == ({"total_tokens": 1}, {"id": "x"})


@pytest.mark.parametrize("text", ["", "Hi.", "The weather in Oslo is fine. " * 1_000, "<" * 400])
def test_a_chunk_that_is_scanned_quickly_stays_as_it_is(text: str) -> None:
    chunk = Chunk((Delta(0, text),))

    assert [*pieces_of(chunk)] == [chunk]


async def test_eight_attempts_continue_one_at_a_time() -> None:
    turns, rounds = Turns(), [0]
    worked: list[int] = []

    async def count_rounds() -> None:
        while True:
            rounds[0] += 1
            await asyncio.sleep(0)

    async def scan() -> None:
        pace = Pace(turns)
        for piece in [*pieces_of(Chunk((Delta(0, LONG),)))][:10]:
            await pace.keep(piece)
            await pace.keep(piece)
            worked.append(rounds[0])

    counting = asyncio.create_task(count_rounds())
    await asyncio.gather(*(scan() for _ in range(8)))
    counting.cancel()

    later = worked[8:]
    assert max(later.count(one) for one in later) <= 2
