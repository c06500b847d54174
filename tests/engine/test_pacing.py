"""A long text is scanned in pieces, and of several such requests one continues in each round of the event loop."""

from __future__ import annotations

import asyncio

import pytest

from forge_proxy.core.rescue.work import estimate_work
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.pacing import Pace, Turns, pieces_of

LONG = "<|1 " * 5_000
WORDS = "The weather in Oslo is fine. " * 30_000


class SlowClock:
    """A clock on which all that is measured takes `step` seconds."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._now = 0.0

    def __call__(self) -> float:
        self._now += self._step
        return self._now


def test_a_long_delta_comes_in_pieces_that_are_the_same_in_all() -> None:
    chunk = Chunk(
        (Delta(0, LONG, "I think.", finish="stop"), Delta(1, "Hi.")),
        usage={"total_tokens": 1},
        head={"id": "x"},
        anew=True,
    )

    pieces = [*pieces_of(chunk)]

    assert "".join(delta.text or "" for piece in pieces for delta in piece.deltas if delta.choice == 0) == LONG
    assert [delta.text for piece in pieces for delta in piece.deltas if delta.choice == 1] == ["Hi."]
    assert [delta.reasoning for piece in pieces for delta in piece.deltas].count("I think.") == 1
    assert pieces[0].deltas[0].reasoning == "I think."
    assert [piece.anew for piece in pieces] == [True, *[False] * (len(pieces) - 1)]
    finishes = [delta.finish for piece in pieces for delta in piece.deltas if delta.choice == 0]
    assert finishes == [*[None] * (len(finishes) - 1), "stop"]
    assert (pieces[-1].usage, pieces[0].head) == ({"total_tokens": 1}, {"id": "x"})


@pytest.mark.parametrize("text", [LONG, WORDS, "<" * 50_000, WORDS + LONG], ids=["openers", "words", "odd", "both"])
@pytest.mark.parametrize("cut", [1, 64, 700, 10**6], ids="{} characters a delta".format)
def test_no_piece_is_much_work_however_the_text_came(text: str, cut: int) -> None:
    text = text[: 2_000 * min(cut, 500)]
    deltas = tuple(Delta(0, text[at : at + cut]) for at in range(0, len(text), cut))

    pieces = [*pieces_of(Chunk(deltas))]

    texts = ["".join(delta.text or "" for delta in piece.deltas) for piece in pieces]
    assert "".join(texts) == text
    assert max(map(estimate_work, texts)) <= 2_000
    assert max(len(piece.deltas) for piece in pieces) <= 100


@pytest.mark.parametrize("text", ["", "Hi.", "The weather in Oslo is fine. " * 100, "<" * 150])
def test_a_chunk_that_is_scanned_quickly_stays_as_it_is(text: str) -> None:
    chunk = Chunk((Delta(0, text),))

    assert [*pieces_of(chunk)] == [chunk]


def test_many_deltas_that_are_scanned_quickly_stay_together() -> None:
    chunk = Chunk(tuple(Delta(0, "Hi. ") for _ in range(90)))

    assert [*pieces_of(chunk)] == [chunk]


def test_texts_that_came_together_are_scanned_together_and_nothing_else_moves() -> None:
    words = [Delta(0, "Hi. ") for _ in range(200)]
    deltas = (
        Delta(0, "", extra={"role": "assistant"}),
        *words,
        Delta(1, "So."),
        *words,
        Delta(0, "End", finish="stop"),
    )

    pieces = [*pieces_of(Chunk(deltas))]

    assert [delta.text for piece in pieces for delta in piece.deltas] == ["", "Hi. " * 200, "So.", "Hi. " * 200, "End"]
    assert pieces[0].deltas[0] == deltas[0]
    assert pieces[-1].deltas[-1] == deltas[-1]


@pytest.mark.parametrize(("step", "pieces"), [(0.0001, 20), (0.001, 2), (0.5, 1)])
def test_an_attempt_rests_after_two_milliseconds_of_work_whatever_was_estimated(step: float, pieces: int) -> None:
    pace = Pace(Turns(SlowClock(step)))
    done = 0

    while not pace.is_over:
        assert pace.measure(lambda chunk: chunk, Chunk()) == Chunk()
        done += 1

    assert done == pytest.approx(pieces, abs=1)


async def test_an_attempt_rests_sooner_while_others_wait() -> None:
    turns = Turns(SlowClock(0.0006))
    pace = Pace(turns)
    pace.measure(lambda chunk: chunk, Chunk())
    alone = pace.is_over

    waiting = asyncio.create_task(turns.wait())
    await asyncio.sleep(0)

    assert not alone
    assert pace.is_over
    await waiting
    assert not pace.is_over


async def test_eight_attempts_continue_one_at_a_time() -> None:
    turns, rounds = Turns(SlowClock(0.001)), [0]
    worked: list[int] = []

    async def count_rounds() -> None:
        while True:
            rounds[0] += 1
            await asyncio.sleep(0)

    async def scan() -> None:
        pace = Pace(turns)
        for piece in [*pieces_of(Chunk((Delta(0, LONG),)))][:10]:
            pace.measure(lambda chunk: chunk, piece)
            if pace.is_over:
                await pace.rest()
            worked.append(rounds[0])

    counting = asyncio.create_task(count_rounds())
    await asyncio.gather(*(scan() for _ in range(8)))
    counting.cancel()

    later = worked[16:]
    assert max(later.count(one) for one in later) <= 2
