"""A received part of a body is yielded in small slices, decompressed if needed."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from forge_proxy.backends.body_slices import BodySlices, Undecodable

_SLICE = 8 * 1024
EVENTS = b'data: {"x": 1}\n\n' * 5_000


def _slices(*pieces: bytes, encoding: str = "") -> list[bytes]:
    slices = BodySlices(encoding)
    handed_out: list[bytes] = []
    for piece in pieces:
        slices.add(piece)
        while part := slices.next():
            handed_out.append(part)
    return handed_out


def test_events_that_arrive_together_are_yielded_complete_and_a_few_at_a_time() -> None:
    parts = _slices(EVENTS)

    assert b"".join(parts) == EVENTS
    assert all(len(part) <= _SLICE and part.endswith(b"\n\n") for part in parts)
    assert len(parts) <= 2 * len(EVENTS) / _SLICE


def test_a_long_line_is_yielded_in_larger_slices_and_ends_one() -> None:
    line = b"data: " + b"x" * 1_000_000 + b"\n\n"

    parts = _slices(EVENTS + line + EVENTS)

    assert b"".join(parts) == EVENTS + line + EVENTS
    assert len(parts) < 2 * len(EVENTS * 2) / _SLICE + 20
    assert all(len(part) <= _SLICE for part in parts if b"\n" in part)


def test_a_piece_that_is_small_stays_as_it_came() -> None:
    piece = b"data: {}\n\ndata: "

    [part] = _slices(piece)

    assert part is piece


@pytest.mark.parametrize("size", [1, 7, 5_000, 10**9])
@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(EVENTS)),
        (" GZIP", gzip.compress(EVENTS[:-4]) + gzip.compress(EVENTS[-4:])),
        ("deflate", zlib.compress(EVENTS)),
        ("deflate", zlib.compress(EVENTS)[2:-4]),
        ("gzip", gzip.compress(EVENTS, 0)),
    ],
)
def test_compressed_data_is_decompressed_at_any_chunk_boundaries(encoding: str, packed: bytes, size: int) -> None:
    parts = _slices(*(packed[at : at + size] for at in range(0, len(packed), size)), encoding=encoding)

    assert b"".join(parts) == EVENTS
    assert all(len(part) <= _SLICE for part in parts)


def test_a_bomb_is_unpacked_a_slice_at_a_time() -> None:
    packed = gzip.compress(b"x" * 30_000_000, 1)
    slices = BodySlices("gzip")
    tracemalloc.start()

    slices.add(packed)
    first = [len(slices.next()) for _ in range(100)]

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert max(first) <= _SLICE
    assert peak < 1_000_000


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip", "deflate", "gzip, br", "identity, zstd"])
def test_an_error_names_the_encoding_that_cannot_be_decoded(encoding: str) -> None:
    with pytest.raises(Undecodable, match=encoding.removeprefix("identity, ")):
        _slices(b"\x00\x01 surely none of these", encoding=encoding)


@pytest.mark.parametrize("encoding", ["utf-8", "identity", "identity, utf-8"])
def test_an_unknown_encoding_is_ignored(encoding: str) -> None:
    assert _slices(b"{}", encoding=encoding) == [b"{}"]
