"""Splits long chunks, so that the stream gate scans each piece quickly. `engine/attempts.py` pauses between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from forge_proxy.core.rescue import estimate_parse_time
from forge_proxy.core.stream import Chunk, Delta

_MAX_PIECE_WORK = 2_000
"""Microseconds of work in one piece, by an estimate that is accurate within a small factor."""
_DELTA_WORK = 20
"""Microseconds that each delta costs, whatever it contains."""
_MAX_PIECE_CHARS = 4_000
"""Maximum number of characters of one text in a piece, since the estimate may be wrong."""
_MIN_PIECE_CHARS = 100
"""Characters of the shortest piece: the fixed cost of a piece must not exceed the cost of its content."""


def split_chunk(chunk: Chunk) -> Iterator[Chunk]:
    """Split a chunk into pieces that are each scanned quickly; nearly always yields the chunk itself."""
    if _is_short(chunk.deltas):
        yield chunk
        return
    piece: list[Delta] = []
    work = 0
    restarts = chunk.restarts
    for delta in _split_deltas(_merge_texts(chunk.deltas)):
        more = _work_in(delta)
        if piece and work + more > _MAX_PIECE_WORK:
            yield Chunk(tuple(piece), head=chunk.head, restarts=restarts)
            piece, work, restarts = [], 0, False
        piece.append(delta)
        work += more
    yield replace(chunk, deltas=tuple(piece), restarts=restarts)


def _is_short(deltas: tuple[Delta, ...]) -> bool:
    """Return whether the chunk need not be split; cheaper than estimating the work of each delta."""
    texts = [delta.text for delta in deltas if delta.text]
    if len(deltas) == 1 and (not texts or len(texts[0]) <= _MIN_PIECE_CHARS):
        return True
    if sum(map(len, texts)) > _MAX_PIECE_CHARS:
        return False
    return len(deltas) * _DELTA_WORK + estimate_parse_time("".join(texts)) <= _MAX_PIECE_WORK


def _work_in(delta: Delta) -> int:
    return _DELTA_WORK + (estimate_parse_time(delta.text) if delta.text else 0)


def _merge_texts(deltas: tuple[Delta, ...]) -> Iterator[Delta]:
    """Merge the texts of consecutive deltas: a delta itself costs more than most of its content."""
    texts: list[str] = []
    choice = 0
    for delta in deltas:
        is_text = bool(delta.text) and delta.reasoning is None and delta.finish is None
        is_text = is_text and not (delta.calls or delta.extra or delta.choice_fields) and delta.logprobs is None
        if texts and not (is_text and delta.choice == choice):
            yield Delta(choice, "".join(texts))
            texts = []
        if is_text:
            choice = delta.choice
            texts.append(delta.text or "")
        else:
            yield delta
    if texts:
        yield Delta(choice, "".join(texts))


def _split_deltas(deltas: Iterator[Delta]) -> Iterator[Delta]:
    """Split deltas with long texts into several."""
    for delta in deltas:
        text = delta.text or ""
        if len(text) <= _MAX_PIECE_CHARS and _work_in(delta) <= _MAX_PIECE_WORK:
            yield delta
            continue
        *begun, last = _split_text(text)
        reasoning = delta.reasoning
        for part in begun:
            yield Delta(delta.choice, part, reasoning)
            reasoning = None
        yield replace(delta, text=last, reasoning=reasoning)


def _split_text(text: str) -> Iterator[str]:
    for begin in range(0, len(text), _MAX_PIECE_CHARS):
        yield from _halve(text[begin : begin + _MAX_PIECE_CHARS])


def _halve(text: str) -> Iterator[str]:
    """Split a text into pieces of at most `_MAX_PIECE_WORK` microseconds."""
    if len(text) <= _MIN_PIECE_CHARS or estimate_parse_time(text) <= _MAX_PIECE_WORK:
        yield text
        return
    middle = len(text) // 2
    yield from _halve(text[:middle])
    yield from _halve(text[middle:])
