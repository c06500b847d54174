"""The thread that writes log lines never blocks the caller and reports dropped lines."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from forge_proxy.telemetry.log_writer import LogWriter


@pytest.fixture
def pipe() -> Generator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(writing)
    os.close(reading)


def dropped_line(count: int) -> bytes:
    return b"dropped %d\n" % count


def read_lines(reading: int, last: bytes) -> list[bytes]:
    """Read a pipe up to and including a line."""
    found = b""
    while last not in found:
        found += os.read(reading, 65536)
    return found.splitlines()


def test_lines_are_written_in_order_and_close_waits_for_them(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    writer = LogWriter(writing, dropped_line)

    for number in range(100):
        writer.write(b"line %d\n" % number)
    writer.close()

    assert read_lines(reading, b"line 99\n") == [b"line %d" % number for number in range(100)]


def test_lines_above_the_limit_are_dropped_and_counted_once_the_pipe_is_read(
    pipe: tuple[int, int],
) -> None:
    reading, writing = pipe
    line = b"x" * 1023 + b"\n"
    writer = LogWriter(writing, dropped_line, limit=64 * 1024)

    for _ in range(1000):  # a pipe holds 64 KiB, so pipe and limit together do not hold all
        writer.write(line)
    lines = read_lines(reading, b"dropped")
    writer.write(b"after\n")
    lines += read_lines(reading, b"after\n")
    writer.close()

    (report,) = [text for text in lines if text.startswith(b"dropped")]
    written = lines.count(line.rstrip(b"\n"))
    assert written + int(report.split()[1]) == 1000
    assert 64 <= written < 300
    assert lines[-1] == b"after"


def test_lines_for_a_full_disk_are_dropped_and_the_writer_continues() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    writer = LogWriter(full, dropped_line)

    for _ in range(10):
        writer.write(b"line\n")
    writer.close()
    os.close(full)

    assert writer.dropped == 10


def test_close_does_not_wait_for_a_reader_that_never_comes(pipe: tuple[int, int]) -> None:
    writer = LogWriter(pipe[1], dropped_line)
    for _ in range(200):
        writer.write(b"x" * 1024)

    writer.close(seconds=0.05)  # the test: it returns

    left = 200 * 1024  # otherwise the thread would write to the next file with this descriptor
    while left:
        left -= len(os.read(pipe[0], left))
    writer.close()
