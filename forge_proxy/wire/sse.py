"""Server-sent events: cuts a byte stream into the data of its events, whatever way the bytes arrive."""

from __future__ import annotations

import re


class SseError(ValueError):
    """The stream is no event stream that can be read on."""


BOM = b"\xef\xbb\xbf"
"""A mark that some servers on Windows put before the first line; it belongs to none."""
MAX_EVENT = 64 * 1024 * 1024
"""Bytes held for one unfinished line; a stream that never ends its line is not an event stream."""

_WHOLE = re.compile(rb"(?:data: [^\r\n]+\n\n)+")
"""Whole events of one line each: what servers nearly always send."""


class SseReader:
    """Fed bytes, gives out the `data` of each complete event. Comments, other fields and events that say nothing are
    passed over.

    Lines end with LF, CRLF or CR, as the specification allows; each byte is looked at a bounded number of times.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._data: list[bytes] = []
        self._after_cr = False
        self._begun = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that `piece` completes."""
        if self._begun and not self._parts and not self._data and _WHOLE.fullmatch(piece):
            return [event[6:] for event in piece[:-2].split(b"\n\n")]
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]  # the second half of a CRLF that was cut between two pieces
            self._after_cr = False
        if not piece:
            return []
        self._after_cr = piece.endswith(b"\r")
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in piece:
            self._hold(piece)
            return []
        self._parts.append(piece)
        *lines, rest = b"".join(self._parts).split(b"\n")
        self._parts, self._size = ([rest], len(rest)) if rest else ([], 0)
        return [event for line in lines if (event := self._take(line)) is not None]

    @property
    def unfinished(self) -> bool:
        """Whether the stream ended inside an event."""
        return bool(self._parts or self._data)

    def end(self) -> bytes | None:
        """The data of an event that the end of the stream completes: some servers leave the last empty line out."""
        last = b"".join(self._parts)
        self._parts = []
        if last:
            self._take(last)
        return self._take(b"")

    def _hold(self, piece: bytes) -> None:
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > MAX_EVENT:
            raise SseError(f"a line of more than {MAX_EVENT} bytes")

    def _take(self, line: bytes) -> bytes | None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(BOM)
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif not line and self._data:
            event = b"\n".join(self._data)
            self._data = []
            return event or None
        return None
