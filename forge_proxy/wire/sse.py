"""Server-sent events: splits a byte stream into the data of its events, however the bytes are divided."""

from __future__ import annotations

import re


class TooLarge(ValueError):
    """A response exceeds the memory that may buffer it."""


BOM = b"\xef\xbb\xbf"
"""The UTF-8 byte order mark, which some servers on Windows send before the first line."""
MAX_RESPONSE = 64 * 1024 * 1024
"""Default number of bytes of one response that may be buffered (`backend.max_response_mb`)."""

_LINE_COST = 64
"""Memory in bytes of a buffered data line in addition to its text."""
_WHOLE = re.compile(rb"(?:data: [^\r\n]+\n\n)+")
"""Complete events of one line each: the usual case."""


class SseReader:
    """Takes bytes and returns the `data` of each complete event. Ignores comments, other fields and empty events.

    Lines end with LF, CRLF or CR, as the HTML specification allows. Time is linear in the number of bytes.
    """

    def __init__(self, limit: int = MAX_RESPONSE) -> None:
        self._limit = limit
        """Maximum bytes of an incomplete event, and of input without an event, such as comments."""
        self._line = bytearray()
        """The incomplete line."""
        self._data: list[bytes] = []
        self._size = 0
        """Memory of `_data` in bytes."""
        self._quiet = 0
        """Bytes since the last event."""
        self._after_cr = False
        self._begun = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the data of the events that `piece` completes. Raises `TooLarge`."""
        if self._begun and not self._line and not self._data and _WHOLE.fullmatch(piece):
            self._quiet = 0
            return [event[6:] for event in piece[:-2].split(b"\n\n")]
        self._quiet += len(piece)
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]  # the second half of a CRLF that was split between two pieces
            self._after_cr = False
        if not piece:
            return []
        self._after_cr = piece.endswith(b"\r")
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in piece:
            self._line += piece
            self._check()
            return []
        end_of_line, _, piece = piece.partition(b"\n")
        self._line += end_of_line  # in place: the line may have megabytes
        *lines, rest = bytes(self._line), *piece.split(b"\n")
        self._line = bytearray(rest)
        events = [event for line in lines if (event := self._take(line)) is not None]
        if events:
            self._quiet = len(rest)
        self._check()
        return events

    @property
    def pending_bytes(self) -> int:
        """Bytes buffered of an incomplete event."""
        return len(self._line) + self._size

    @property
    def unfinished(self) -> bool:
        """Whether the stream ended inside an event."""
        return bool(self._line or self._data)

    def end(self) -> bytes | None:
        """Return the data of an event that ends with the stream: some servers omit the last empty line."""
        if self._line:
            self._take(bytes(self._line))
            self._line = bytearray()
        return self._take(b"")

    def _check(self) -> None:
        if len(self._line) + self._size > self._limit:
            raise TooLarge(f"an event of more than {self._limit} bytes")
        if self._quiet > self._limit:
            raise TooLarge(f"more than {self._limit} bytes without an event")

    def _take(self, line: bytes) -> bytes | None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(BOM)
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            self._size += len(line) + _LINE_COST
        elif not line and self._data:
            event = b"\n".join(self._data)
            self._data, self._size = [], 0
            return event or None
        return None
