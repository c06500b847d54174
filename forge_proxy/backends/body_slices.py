"""Cuts a response body into small slices and decompresses it if necessary.

This belongs in `backends` because it handles what a model server may do to the body of an HTTP response; it parses no
protocol.
"""

from __future__ import annotations

import zlib

_SLICE = 8 * 1024
"""Bytes that are returned at a time: parsing the events in them takes one or two milliseconds."""
_LONG_SLICE = 64 * 1024
"""The same within one long line, in which nothing can be parsed before it ends."""
_EVENT_END, _LINE_END = b"\n\n", b"\n"
_ZLIB = ("gzip", "x-gzip", "deflate")
_UNSUPPORTED = ("br", "zstd", "compress", "x-compress", "dcb", "dcz")
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_DEFLATED = 8
"""Low four bits of the first byte of a zlib stream; some servers send "deflate" without this header."""


class Undecodable(ValueError):
    """A body with a content encoding that cannot be decoded. The message names the encoding."""


def find_encoding(header: str) -> str:
    """Return the encoding in a `Content-Encoding` header that must be decoded: gzip, deflate or "".

    Unknown names are ignored: some servers send a charset there. Raises `Undecodable` for encodings that cannot be
    decoded, such as br, and for several of them.
    """
    known = [name for part in header.split(",") if (name := part.strip().lower()) in (*_ZLIB, *_UNSUPPORTED)]
    if len(known) > 1 or not set(known).isdisjoint(_UNSUPPORTED):
        raise Undecodable(
            f"its response has Content-Encoding {', '.join(known)}, which the daemon did not request and cannot decode;"
            " disable compression in the model server or in the proxy before it"
        )
    return known[0] if known else ""


class BodySlices:
    """Takes pieces of a body as they arrive and returns them in slices. `encoding` is the `Content-Encoding`."""

    def __init__(self, encoding: str = "") -> None:
        self._header = encoding
        self._inflater: _Inflater | None = None
        self._piece = b""
        self._at = 0

    def add(self, piece: bytes) -> None:
        """Add the next piece, after `next` has returned all of the previous one. Raises `Undecodable`."""
        if self._header:
            encoding, self._header = find_encoding(self._header), ""
            self._inflater = _Inflater(encoding) if encoding else None
        self._piece, self._at = piece, 0

    def next(self) -> bytes:
        """Return the next slice; empty if another piece is needed. Raises `Undecodable`."""
        if self._inflater is None:
            return self._cut()
        while not (data := self._inflater.next()):
            if not (packed := self._cut()):
                return b""
            self._inflater.add(packed)
        return data

    def _cut(self) -> bytes:
        """Return the next slice, still compressed; if possible whole events, which are parsed faster."""
        piece, at = self._piece, self._at
        if not at and len(piece) <= _SLICE:
            self._piece = b""
            return piece
        end = at + _SLICE
        if end < len(piece):
            if (found := piece.rfind(_EVENT_END, at, end)) >= 0:
                end = found + len(_EVENT_END)
            elif piece.find(_LINE_END, at, end) < 0:
                found = piece.find(_LINE_END, end, at + _LONG_SLICE)
                end = found if found >= 0 else at + _LONG_SLICE
        self._at = end
        if end >= len(piece):
            self._piece, self._at = b"", 0
        return piece[at:end]


class _Inflater:
    """Decompresses gzip, zlib and raw deflate in slices: a megabyte may expand to a gigabyte."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._inflate = None
        self._packed = b""
        self._has_more = False

    def add(self, packed: bytes) -> None:
        self._packed += packed

    def next(self) -> bytes:
        """Return the next bytes, at most one slice; empty if more must be added. Raises `Undecodable`."""
        while self._packed or self._has_more:
            if self._inflate is None:
                is_bare = self._packed[0] != 0x1F and self._packed[0] & 0xF != _DEFLATED
                self._inflate = zlib.decompressobj(-zlib.MAX_WBITS if is_bare else _GZIP_OR_ZLIB)
            try:
                data = self._inflate.decompress(self._packed, _SLICE)
            except zlib.error as exc:
                raise Undecodable(f"its response has Content-Encoding {self._encoding}, but is not valid") from exc
            self._packed = self._inflate.unconsumed_tail
            self._has_more = len(data) == _SLICE
            if self._inflate.eof:  # another member may follow
                self._packed, self._has_more = self._inflate.unused_data, False
                self._inflate = None
            if data:
                return data
        return b""
