"""Server-sent events: the same ones, whatever way their bytes arrive."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.wire.sse import SseReader, TooLarge
from tests.properties import LENGTHS, cut, examples

ENDINGS = [b"\n", b"\r\n", b"\r"]
DATA = st.text(alphabet='a{": ,é😀', max_size=6).map(str.encode) | st.sampled_from(
    [b"[DONE]", b"data:", b":", b" x", b"\x00"]
)
BETWEEN = st.sampled_from([b": keep-alive", b":", b"event: message", b"id: 7", b"retry: 10", b"datax: 1", b"nonsense"])
EVENTS = st.lists(st.lists(DATA, min_size=1, max_size=3).filter(any), max_size=4)


def events(pieces: list[bytes]) -> list[bytes]:
    reader = SseReader()
    found = [event for piece in pieces for event in reader.feed(piece)]
    last = reader.end()
    return found if last is None else [*found, last]


def written(parts: list[list[bytes]], between: list[bytes], ending: bytes, *, spaced: bool) -> bytes:
    """A stream of events, each with several lines of data and other lines around them."""
    lines: list[bytes] = [*between]
    for data in parts:
        lines += [b"data:" + (b" " if spaced or line.startswith(b" ") else b"") + line for line in data]
        lines += [*between, b""]
    return b"".join(line + ending for line in lines)


@pytest.mark.parametrize("ending", ENDINGS, ids=["LF", "CRLF", "CR"])
@examples(120)
@given(parts=EVENTS, between=st.lists(BETWEEN, max_size=2), spaced=st.booleans(), lengths=LENGTHS)
def test_any_chunk_boundaries_give_the_same_events(
    ending: bytes, parts: list[list[bytes]], between: list[bytes], spaced: bool, lengths: list[int]
) -> None:
    stream = written(parts, between, ending, spaced=spaced)
    said = [b"\n".join(data) for data in parts]

    assert events([stream]) == said
    assert events(cut(stream, lengths)) == said
    assert events(cut(stream, [1])) == said


@examples(300)
@given(
    stream=st.lists(
        st.sampled_from([b"\r", b"\n", b"\r\n", b"data: a", b"data", b":", b"x", b"\xff", b" "]), max_size=12
    ),
    lengths=LENGTHS,
)
def test_any_cut_of_any_bytes_gives_the_same_events(stream: list[bytes], lengths: list[int]) -> None:
    whole = b"".join(stream)

    assert events(cut(whole, lengths)) == events([whole])


@pytest.mark.parametrize("ending", ENDINGS, ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("missing", [1, 2])
def test_the_end_of_the_stream_completes_an_event(ending: bytes, missing: int) -> None:
    stream = ending.join([b"data: a", b"", b"data: b", b"data: c"]) + ending * (2 - missing)

    reader = SseReader()

    assert reader.feed(stream) == [b"a"]
    assert reader.unfinished
    assert reader.end() == b"b\nc"
    assert not reader.unfinished
    assert reader.end() is None


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (b"", []),
        (b"\n\n\n", []),
        (b": only a comment\n\n", []),
        (b"event: ping\n\n", []),
        (b"data:\n\n", []),
        (b"data: \n\n: x\n\ndata: a\n\n", [b"a"]),
        (b"data: a\n: x\ndata: b\n\n", [b"a\nb"]),
        (b"data:a\n\ndata:  b\n\n", [b"a", b" b"]),
        (b"data: a\r\ndata: b\r\n\r\ndata: c\n\n", [b"a\nb", b"c"]),
        (b"data: a\rdata: b\r\rdata: c\r", [b"a\nb", b"c"]),
        (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"]),
        (b"database: a\n\ndata : b\n\n", []),
        ("data: é😀\u2028x\n\n".encode(), ["é😀\u2028x".encode()]),
    ],
)
def test_only_non_empty_data_is_an_event(stream: bytes, said: list[bytes]) -> None:
    assert events([stream]) == said
    assert events(cut(stream, [1])) == said


def test_an_event_is_returned_as_soon_as_it_is_complete() -> None:
    reader = SseReader()

    steps = [reader.feed(piece) for piece in (b"data: a\r\n", b"\r", b"\ndata: b\n\ndata", b": c\n", b"\n")]

    assert steps == [[], [b"a"], [b"b"], [], [b"c"]]


@pytest.mark.parametrize(
    "piece",
    [b"data: " + b"x" * 90, b"data: x\n", b"data:\n", b": comment "],
    ids=["a line without end", "lines without an empty one", "empty lines of data", "a comment without end"],
)
def test_the_buffer_of_an_event_is_bounded_by_the_limit(piece: bytes) -> None:
    reader = SseReader(limit=10_000)

    def feed() -> None:
        for _ in range(10_000):
            reader.feed(piece)

    tracemalloc.start()
    with pytest.raises(TooLarge):
        feed()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held < 40_000


def test_what_is_complete_does_not_count_for_the_limit() -> None:
    reader = SseReader(limit=100)

    given = [reader.feed(b"data: " + b"x" * 20 + b"\n\ndata: ") for _ in range(50)]

    assert [len(events) for events in given] == [1] * 50


def test_a_long_line_in_small_pieces_is_one_event() -> None:
    reader = SseReader()
    line = b"data: " + b"x" * 200_000

    assert [event for piece in cut(line, [3]) for event in reader.feed(piece)] == []
    assert reader.feed(b"\n\n") == [b"x" * 200_000]


@pytest.mark.parametrize("line", [b": nothing to say\n\n", b"event: ping\n\n", b"\n"])
def test_a_stream_that_brings_no_event_ends_at_the_limit(line: bytes) -> None:
    reader = SseReader(limit=10_000)
    for _ in range(9_990 // len(line)):
        assert reader.feed(line) == []

    with pytest.raises(TooLarge, match="without an event"):
        reader.feed(line * 20)


def test_comments_between_events_are_not_added_up() -> None:
    reader = SseReader(limit=10_000)

    for _ in range(100):
        assert reader.feed(b": still at it\n\n" * 100) == []
        assert reader.feed(b"data: x\n\n") == [b"x"]
