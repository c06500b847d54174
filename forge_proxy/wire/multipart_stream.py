"""Parses a `multipart/form-data` body (RFC 2046, RFC 7578) as it arrives, so that a large file is never whole in
memory. It is as strict as `multipart.py`: a part whose head is ambiguous is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from enum import Enum
from typing import NamedTuple, TypeAlias

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.wire.multipart import MAX_HEAD, MAX_PARTS, REST_OF_DELIMITER, read_disposition, read_parameters

_LONGEST_REST = 104
"""Bytes after a delimiter that decide whether it is one: blanks and a line end."""
_MAYBE_REST = re.compile(rb"-|[ \t]{0,100}\r?")
_BOUNDARY = re.compile(r"[ -~]{0,69}[!-~]")


class PartStart(NamedTuple):
    """The head of a part. `filename` is None for a field that is not a file."""

    name: str
    filename: str | None


PartEvent: TypeAlias = PartStart | bytes
"""The start of a part, or some of its content. A part ends with the next one or with the body."""


class _State(Enum):
    START = 1
    HEAD = 2
    CONTENT = 3
    END = 4


def read_boundary(content_type: str) -> str:
    """Return the boundary of a form. Raises `InvalidRequest`."""
    parameters = read_parameters(content_type) if content_type.lower().startswith("multipart/form-data") else None
    boundary = (parameters or {}).get("boundary", "")
    if not _BOUNDARY.fullmatch(boundary):
        raise InvalidRequest("content-type", "expected multipart/form-data with a boundary")
    return boundary


class MultipartParser:
    """Parses one body. All methods raise `InvalidRequest`."""

    def __init__(self, boundary: str) -> None:
        self._delimiter = b"\r\n--" + boundary.encode("ascii")
        # The first delimiter may begin the body, without a line end before it.
        self._buffer = bytearray(b"\r\n")
        self._state = _State.START
        self._parts = 0

    def feed(self, data: bytes) -> Generator[PartEvent]:
        """Yield what follows from more data."""
        self._buffer += data
        while self._state is not _State.END:
            if self._state is _State.HEAD:
                start = self._read_head()
                if start is None:
                    return
                yield start
            is_preamble = self._state is _State.START
            content, is_end = self._read_content()
            if content and not is_preamble:
                yield content
            if not is_end:
                return

    def close(self) -> None:
        """End the body."""
        if self._state is not _State.END:
            raise InvalidRequest("body", "the form ends before its last boundary")

    def _read_head(self) -> PartStart | None:
        """Return the start of a part; None if its head is not complete."""
        end = self._buffer.find(b"\r\n\r\n", 0, MAX_HEAD)
        if end < 0:
            if len(self._buffer) >= MAX_HEAD:
                raise InvalidRequest("body", f"the headers of a part have more than {MAX_HEAD} bytes")
            return None
        parameters = read_disposition(bytes(self._buffer[:end]))
        if parameters is None or "name" not in parameters or "filename*" in parameters:
            raise InvalidRequest("body", "a part of the form needs one content-disposition with a name")
        del self._buffer[: end + 4]
        # The line end before a delimiter belongs to it, also if the content is empty.
        self._state = _State.CONTENT
        return PartStart(_decode(parameters["name"]), _decode_optional(parameters.get("filename")))

    def _read_content(self) -> tuple[bytes, bool]:
        """Return content of a part, and whether it ends there; nothing and False if more data is needed."""
        start = 0
        while (at := self._buffer.find(self._delimiter, start)) >= 0:
            after = at + len(self._delimiter)
            rest = REST_OF_DELIMITER.match(self._buffer, after)
            if rest is not None:
                content = bytes(self._buffer[:at])
                self._end_part(rest[0], rest.end())
                return content, True
            if len(self._buffer) - after < _LONGEST_REST and _MAYBE_REST.fullmatch(self._buffer, after):
                break  # more data decides whether it is a delimiter
            start = after
        keep = at if at >= 0 else max(start, len(self._buffer) - len(self._delimiter) + 1)
        content = bytes(self._buffer[:keep])
        del self._buffer[:keep]
        return content, False

    def _end_part(self, rest: bytes, end: int) -> None:
        self._state = _State.END if rest == b"--" else _State.HEAD
        del self._buffer[: end - 2]  # a head follows the line end, so that an empty one is found
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise InvalidRequest("body", f"the form has more than {MAX_PARTS} parts")


def _decode(value: str) -> str:
    """Return a parameter as clients mean it: most write UTF-8."""
    return value.encode("latin-1").decode("utf-8", "replace")


def _decode_optional(value: str | None) -> str | None:
    return None if value is None else _decode(value)
