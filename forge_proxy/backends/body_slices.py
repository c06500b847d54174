"""Cuts what came of a response's body into small slices, and unpacks it if it is compressed.

This belongs in `backends` because it knows what a model server may do to the body of an HTTP response; it reads no
dialect.
"""

from __future__ import annotations

import zlib

_SLICE = 8 * 1024
"""Bytes that are handed out at a time: reading the events in them takes a millisecond or two."""
_LONG_SLICE = 64 * 1024
"""The same inside of one line, of which there is nothing to read before it ends."""
_EVENT_END, _LINE_END = b"\n\n", b"\n"
_ZLIB = ("gzip", "x-gzip", "deflate")
_UNREADABLE = ("br", "zstd", "compress", "x-compress")
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_DEFLATED = 8
"""How the first byte of a zlib stream ends; some servers send \"deflate\" without that."""


class Undecodable(ValueError):
    """The body is compressed in a way that cannot be read."""


class BodySlices:
    """Given pieces of a body as they come, hands them out in slices. `encoding` is the `Content-Encoding`."""

    def __init__(self, encoding: str = "") -> None:
        encoding = encoding.strip().lower()
        self._is_readable = encoding not in _UNREADABLE
        self._inflater = _Inflater() if encoding in _ZLIB else None
        self._piece = b""
        self._at = 0

    def add(self, piece: bytes) -> None:
        """Take what came, once `next` has nothing more."""
        if not self._is_readable:
            raise Undecodable
        self._piece, self._at = piece, 0

    def next(self) -> bytes:
        """The next slice, empty if more has to come first. Raises `Undecodable`."""
        if self._inflater is None:
            return self._cut()
        while not (data := self._inflater.next()):
            if not (packed := self._cut()):
                return b""
            self._inflater.add(packed)
        return data

    def _cut(self) -> bytes:
        """The next slice as it came: if it can be, whole events, which are read faster."""
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
    """Unpacks gzip, zlib and bare deflate, so much at a time: a megabyte may become a gigabyte."""

    def __init__(self) -> None:
        self._inflate = None
        self._packed = b""
        self._has_more = False

    def add(self, packed: bytes) -> None:
        self._packed += packed

    def next(self) -> bytes:
        """The next bytes, at most a slice; empty if more has to be added first. Raises `Undecodable`."""
        while self._packed or self._has_more:
            if self._inflate is None:
                is_bare = self._packed[0] != 0x1F and self._packed[0] & 0xF != _DEFLATED
                self._inflate = zlib.decompressobj(-zlib.MAX_WBITS if is_bare else _GZIP_OR_ZLIB)
            try:
                data = self._inflate.decompress(self._packed, _SLICE)
            except zlib.error as exc:
                raise Undecodable from exc
            self._packed = self._inflate.unconsumed_tail
            self._has_more = len(data) == _SLICE
            if self._inflate.eof:  # another member may follow
                self._packed, self._has_more = self._inflate.unused_data, False
                self._inflate = None
            if data:
                return data
        return b""
