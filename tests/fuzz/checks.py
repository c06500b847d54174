"""Properties that must hold for any text; yields the violations."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from forge_proxy.core.rescue import OutputPiece, StreamingParser, repair_arguments, rescue
from tests.scanned import Given, gather

NAMES = ("get_weather", "a", "respond", "get", "a-b.c/d")


def faults_of(text: str, rng: random.Random) -> Iterator[str]:
    """The reasons why a text is a bug; none for most. What raises is a bug as well."""
    repair_arguments(text)
    for template_thinks in (False, True):
        rescued = rescue(text, NAMES, template_thinks=template_thinks)
        whole = _given([len(text)], text, template_thinks=template_thinks)
        for cuts in ([1] * len(text), [rng.randint(1, 12) for _ in text]):
            cut = _given(cuts, text, template_thinks=template_thinks)
            if cut != whole:
                yield f"cut {cut} is not whole {whole}"
        if whole.recalls or (template_thinks and rescued.implicit_reasoning):
            continue
        if not rescued.text.startswith(whole.text):
            yield f"what has left, {whole.text!r}, is not how {rescued.text!r} begins"
        for found in rescued.calls:
            if not 0 <= found.start < found.end <= len(text):
                yield f"{found} stands nowhere"


def _given(cuts: Iterable[int], text: str, *, template_thinks: bool) -> Given:
    scan = StreamingParser(NAMES, template_thinks=template_thinks)
    pieces: list[OutputPiece] = []
    at = 0
    for length in cuts:
        pieces += scan.feed(text[at : at + length])
        at += length
    pieces += [*scan.feed(text[at:]), *scan.decide_postponed()]
    return gather(pieces)
