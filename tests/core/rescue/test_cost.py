"""The cost of parsing grows linearly with the length of the text, for any text and any chunk boundaries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from forge_proxy.core.rescue import StreamingParser, repair_arguments, rescue, streaming
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.output_buffer import OutputBuffer
from forge_proxy.core.rescue.parser import Parser
from forge_proxy.core.rescue.readers import pythonic
from forge_proxy.core.rescue.readers.json_calls import MAX_CALLS, ParsedCall
from forge_proxy.core.rescue.readers.pythonic import read_call
from tests.attack.texts import NAMES, PATTERNS
from tests.folding import folded
from tests.properties import sample

_SMALL, _TIMES = 3_000, 8
_MOST = 16
"""Linear is 8 times the time, quadratic 64 times: the room between is for a busy machine."""
_FLOOR = 0.002
"""Seconds: below that the clock and the machine say more than the text."""


def _scan(text: str, step: int) -> None:
    scanned = StreamingParser(NAMES, template_thinks=False)
    for at in range(0, len(text), step):
        scanned.feed(text[at : at + step])
    scanned.decide_postponed()


SAMPLE = sample(PATTERNS, 1)
"""Of what models write without end: all of it but in `make quick`."""
READERS: dict[str, Callable[[str], object]] = {
    "whole": lambda text: rescue(text, NAMES),
    "one delta": lambda text: _scan(text, len(text)),
    "4 characters a delta": lambda text: _scan(text, 4),
    "arguments": lambda text: repair_arguments("{" + text),
}


def _seconds(read: Callable[[str], object], text: str) -> float:
    begun = time.process_time()
    read(text)
    return max(_FLOOR, time.process_time() - begun)


@pytest.mark.long
@folded
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("name", "make"), SAMPLE, ids=[name for name, _ in SAMPLE])
def test_the_work_grows_linearly_with_the_text(name: str, make: Callable[[int], str], reader: str) -> None:
    read = READERS[reader]

    ratios = (_seconds(read, make(_SMALL * _TIMES)) / _seconds(read, make(_SMALL)) for _ in range(5))

    assert any(ratio < _MOST for ratio in ratios), name  # one may have had a noisy neighbour


@pytest.mark.parametrize(("name", "make"), SAMPLE, ids=[name for name, _ in SAMPLE])
def test_one_long_delta_is_processed_in_slices(
    name: str, make: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []

    class Counted(Parser):
        def __init__(self, text: str, *more: Any, **options: Any) -> None:
            looked_at.append(len(text))
            super().__init__(text, *more, **options)

    monkeypatch.setattr(streaming, "Parser", Counted)

    text = make(40_000)
    _scan(text, len(text))

    assert sum(looked_at) < 10_000 * len(looked_at) + 4 * len(text), name


def test_an_endless_list_of_calls_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(text: str, at: int, look: ParseContext) -> tuple[ParsedCall, int] | None:
        read.append(at)
        return read_call(text, at, look)

    monkeypatch.setattr(pythonic, "read_call", counted)

    found = pythonic.read_calls("[" + "a()," * 50_000 + "a()]", 0, ParseContext(("a",)))

    assert found is not None
    assert len(found[0]) == len(read) == MAX_CALLS + 1


def test_postponed_white_space_costs_no_more_than_other_text() -> None:
    def say(pieces: str) -> None:
        speech = OutputBuffer()
        for piece in pieces:
            speech.add_text(piece)

    ratios = (_seconds(say, "\n" * 320_000) / _seconds(say, "\n" * 40_000) for _ in range(3))

    assert any(ratio < 2 * _MOST for ratio in ratios)
