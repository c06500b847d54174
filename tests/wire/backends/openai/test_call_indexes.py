"""Calls that claim one index, or none, are distinguished by their ids."""

from __future__ import annotations

import pytest

from forge_proxy.core.stream import CallDelta, Chunk, Delta
from forge_proxy.wire.backends.openai.call_indexes import CallIndexes

A, B = CallDelta(0, "a", "f"), CallDelta(0, "b", "f")


@pytest.mark.parametrize(
    ("pieces", "places"),
    [
        ([A, B], [0, 1]),
        ([A, CallDelta(0, arguments="{}"), B, CallDelta(0, arguments="{}")], [0, 0, 1, 1]),
        ([A, A, B, B], [0, 0, 1, 1]),  # id and name with each delta
        ([A, CallDelta(0, "new", "", "{}")], [0, 0]),  # a new id with each delta
        ([CallDelta(0, "a"), CallDelta(0, "", "f"), B], [0, 0, 1]),
        ([CallDelta(0, "", "f"), CallDelta(0, "a"), B], [0, 0, 1]),
        ([CallDelta(1, "a", "f"), CallDelta(1, arguments="{}")], [1, 1]),
        ([CallDelta(0, "a", "f"), CallDelta(1, "b", "f"), CallDelta(0, arguments="{}")], [0, 1, 0]),
        ([A, B, CallDelta(1, "c", "f"), CallDelta(1, arguments="{}"), CallDelta(0, arguments="{}")], [0, 1, 2, 2, 1]),
    ],
)
def test_each_call_has_a_place_of_its_own_wherever_it_is_cut(pieces: list[CallDelta], places: list[int]) -> None:
    one_by_one, at_once = CallIndexes(), CallIndexes()

    placed = [one_by_one.assign(Chunk((Delta(calls=(piece,)),))).deltas[0].calls[0] for piece in pieces]

    assert [piece.index for piece in placed] == places
    assert at_once.assign(Chunk((Delta(calls=tuple(pieces)),))).deltas[0].calls == tuple(placed)


def test_choices_are_counted_by_themselves() -> None:
    placed = CallIndexes().assign(Chunk((Delta(0, calls=(A, B)), Delta(1, calls=(A,)))))

    assert [[piece.index for piece in delta.calls] for delta in placed.deltas] == [[0, 1], [0]]
