"""The last log lines of a model server, however its output is cut."""

from __future__ import annotations

import pytest

from forge_proxy.backends.llama_server.log_tail import LogTail
from tests.folding import folded


@folded
@pytest.mark.parametrize("cut", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    ("said", "lines"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\r\ntwo", ["one", "two"]),
        (b"one\n\ntwo\n", ["one", "", "two"]),
        (b"1\n2\n3\n4\n5\n", ["3", "4", "5"]),
        (b"0123456789abcdef\nnext", ["0123456789", "next"]),
        ("grün\n".encode(), ["grün"]),
        (b"\xff\n", ["�"]),
    ],
)
def test_stored_lines_are_bounded_at_any_chunk_boundaries(said: bytes, lines: list[str], cut: int) -> None:
    log = LogTail(lines=3, length=10)

    for at in range(0, len(said), cut):
        log.feed(said[at : at + cut])

    assert log.last() == lines
    assert log.size == len(said)


def test_an_endless_line_takes_no_more_room_than_a_long_one() -> None:
    log = LogTail(lines=3, length=10)

    for _ in range(1000):
        log.feed(b"." * 1000)

    assert log.last() == ["." * 10]


def test_fewer_lines_can_be_asked_for() -> None:
    log = LogTail()
    log.feed(b"1\n2\n3\n")

    assert (log.last(2), log.last(0)) == (["2", "3"], [])


@pytest.mark.parametrize(
    ("said", "faults"),
    [
        (b"0.1 I srv: hello\n0.2 E srv: no memory\n0.3 E main: exiting\n", ["srv: no memory", "main: exiting"]),
        (b"ggml.c:123: GGML_ASSERT(x) failed\n", ["ggml.c:123: GGML_ASSERT(x) failed"]),
        (b"error: unknown argument: --foo", ["error: unknown argument: --foo"]),
        (b"all is well\n", []),
    ],
)
def test_error_lines_are_distinguished_from_others(said: bytes, faults: list[str]) -> None:
    log = LogTail()
    log.begin("--- the first one")
    log.feed(b"0.1 E srv: of another server\n")

    log.begin("--- with an Error in its name")
    log.feed(said)

    assert log.faults() == faults


def test_the_latest_line_is_of_the_server_that_runs() -> None:
    log = LogTail()
    log.begin("---")
    log.feed(b"one\n")
    log.begin("---")

    assert log.latest == ""
    log.feed(b"two\n\n")
    assert log.latest == "two"
