"""A long text is scanned in pieces, and all requests together work for a few milliseconds in a round of the loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine

import pytest

from forge_proxy.core.rescue import estimate_parse_time
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.pacing import LoopTurns, Pace, pieces_of

LONG = "<|1 " * 5_000
WORDS = "The weather in Oslo is fine. " * 30_000


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
    assert max(map(estimate_parse_time, texts)) <= 2_000
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


class _Work:
    """Steps that take time on a clock of their own, and the round of the event loop in which each was done."""

    def __init__(self, step_seconds: float) -> None:
        self._step_seconds = step_seconds
        self._now = 0.0
        self._round = 0
        self.rounds: list[int] = []
        self.names: list[str] = []
        self.turns = LoopTurns(self)

    def now(self) -> float:
        return self._now

    async def do(self, steps: int, name: str = "") -> None:
        pace = Pace(self.turns, self)
        for _ in range(steps):
            await pace.begin_step()
            self._now += self._step_seconds
            pace.end_step()
            self.rounds.append(self._round)
            self.names.append(name)

    async def reach(self, steps: int) -> None:
        """Wait until so many steps have been done."""
        for _ in range(10 * steps):
            if len(self.names) >= steps:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"{len(self.names)} steps were done")

    async def together(self, *work: Coroutine[None, None, None]) -> None:
        async def count_rounds() -> None:
            while True:
                await asyncio.sleep(0)
                self._round += 1

        counting = asyncio.create_task(count_rounds())
        await asyncio.gather(*work)
        counting.cancel()

    def most_at_once(self) -> int:
        """The most steps of one round."""
        return max(Counter(self.rounds).values())


@pytest.mark.parametrize(("requests", "steps"), [(8, 50), (500, 1), (500, 3), (1, 400)])
async def test_in_one_round_of_the_loop_work_is_done_for_four_milliseconds(requests: int, steps: int) -> None:
    work = _Work(0.001)

    await work.together(*(work.do(steps) for _ in range(requests)))

    assert len(work.rounds) == requests * steps
    assert work.most_at_once() <= 8  # the end of a spell that nobody waited in, and one after it


async def test_of_steps_that_take_long_each_round_of_the_loop_has_one() -> None:
    work = _Work(0.02)

    await work.together(*(work.do(20) for _ in range(8)))

    assert work.most_at_once() <= 2
    assert work.rounds[-1] - work.rounds[0] <= 3 * len(work.rounds)  # and no round is for nothing


async def test_quick_steps_share_rounds() -> None:
    work = _Work(0.00001)

    await work.together(*(work.do(100) for _ in range(8)))

    assert work.rounds[-1] - work.rounds[0] <= 50


async def test_a_small_request_waits_for_few_steps_of_heavy_ones() -> None:
    work = _Work(0.005)

    async def small() -> None:
        await work.reach(200)  # by then the others are heavy
        await work.do(3, "small")

    await work.together(small(), *(work.do(60, "heavy") for _ in range(8)))

    places = [place for place, name in enumerate(work.names) if name == "small"]
    assert places[-1] - places[0] <= 8
    assert places[0] <= 205


async def test_heavy_requests_are_not_put_off_by_many_small_ones() -> None:
    work = _Work(0.005)

    async def small() -> None:
        await work.reach(100)
        await work.do(1, "small")

    await work.together(*(work.do(80, "heavy") for _ in range(8)), *(small() for _ in range(300)))

    assert 20 < work.names[110:190].count("heavy") < 60


async def test_a_request_that_leaves_while_it_waits_holds_up_nobody() -> None:
    work = _Work(0.005)

    async def leave() -> None:
        task = asyncio.create_task(work.do(100, "left"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()

    await work.together(leave(), leave(), work.do(20, "stays"), work.do(20, "stays"))

    assert work.names.count("stays") == 40
