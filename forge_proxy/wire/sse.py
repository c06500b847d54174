"""Server-sent events: cuts a byte stream into the data of its events, whatever way the bytes arrive."""

from __future__ import annotations

import re


class TooLarge(ValueError):
    """More of a response would have to be held than an attempt may hold."""


BOM = b"\xef\xbb\xbf"
"""A mark that some servers on Windows put before the first line; it belongs to none."""
MAX_RESPONSE = 64 * 1024 * 1024
"""Bytes that are held of one response, unless the settings say otherwise (`backend.max_response_mb`)."""

_LINE_COST = 64
"""Bytes that a line of data takes beside its text, until its event is complete."""
_WHOLE = re.compile(rb"(?:data: [^\r\n]+\n\n)+")
"""Whole events of one line each: what servers nearly always send."""


class SseReader:
    """Fed bytes, gives out the `data` of each complete event. Comments, other fields and events that say nothing are
    passed over.

    Lines end with LF, CRLF or CR, as the specification allows; each byte is looked at a bounded number of times.
    """

    def __init__(self, limit: int = MAX_RESPONSE) -> None:
        self._limit = limit
        """Bytes that may be held of an unfinished event, and that may come without any, such as comments."""
        self._line = bytearray()
        """The unfinished line."""
        self._data: list[bytes] = []
        self._size = 0
        """Bytes that `_data` takes."""
        self._quiet = 0
        """Bytes since the last event."""
        self._after_cr = False
        self._begun = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that `piece` completes. Raises `TooLarge`."""
        if self._begun and not self._line and not self._data and _WHOLE.fullmatch(piece):
            self._quiet = 0
            return [event[6:] for event in piece[:-2].split(b"\n\n")]
        self._quiet += len(piece)
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]  # the second half of a CRLF that was cut between two pieces
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
        *lines, rest = (bytes(self._line) + piece).split(b"\n")
        self._line = bytearray(rest)
        events = [event for line in lines if (event := self._take(line)) is not None]
        if events:
            self._quiet = len(rest)
        self._check()
        return events

    @property
    def pending_bytes(self) -> int:
        """Bytes that are buffered of an unfinished event."""
        return len(self._line) + self._size

    @property
    def unfinished(self) -> bool:
        """Whether the stream ended inside an event."""
        return bool(self._line or self._data)

    def end(self) -> bytes | None:
        """The data of an event that the end of the stream completes: some servers leave the last empty line out."""
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
