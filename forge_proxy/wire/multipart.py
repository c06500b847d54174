"""Finds the fields of a `multipart/form-data` body (RFC 2046, RFC 7578) without copying it.

This belongs in `wire` because it only examines bytes. It is strict: a part whose head is ambiguous has no name, so that
neither the name of a file nor the content of another part is read as a field.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import NamedTuple, TypeAlias

RawBytes: TypeAlias = bytes | bytearray

MAX_PARTS = 100
MAX_HEAD = 8192
"""Bytes of the headers of one part."""
_SEARCHED = 1024 * 1024
"""Bytes searched for a delimiter per slice."""
_MAX_FALSE = 1000
"""Maximum lines of one part that begin like a delimiter: a client chooses a boundary that its content does not have."""
_NAME = r"[!#-'*+\-.0-9A-Z^-z|~]+"
_KIND = re.compile(rf"[ \t]*{_NAME}(?:/{_NAME})?[ \t]*")
_PARAMETER = re.compile(rf';[ \t]*(?:({_NAME})=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))[ \t]*)?', re.DOTALL)
_ESCAPE = re.compile(r'\\(["\\])')
_FOLD = re.compile(rb"\r\n[ \t]+")
REST_OF_DELIMITER = re.compile(rb"--|[ \t]{0,100}\r\n")


class FormField(NamedTuple):
    """A field that is not a file, and where its value begins and ends."""

    name: str
    start: int
    end: int


def read_parameters(value: str) -> dict[str, str] | None:
    """Return the parameters of a Content-Type or Content-Disposition header; None if it is not well-formed.

    Their names are in lower case. A header that has one twice is not well-formed.
    """
    kind = _KIND.match(value)
    at, parameters = kind.end() if kind else 0, dict[str, str]()
    while at < len(value):
        found = _PARAMETER.match(value, at)
        if found is None:
            return None
        at, name = found.end(), found[1]
        if name is None:  # nothing between two semicolons, or after the last one
            continue
        if name.lower() in parameters:
            return None
        parameters[name.lower()] = found[3] if found[2] is None else _ESCAPE.sub(r"\1", found[2])
    return parameters if kind else None


def find_fields(raw: RawBytes, boundary: str) -> Generator[None, None, list[FormField]]:
    """Return the fields of a body. Yields between slices. A body that is not well-formed has none."""
    delimiter = b"\r\n--" + boundary.encode("latin-1", "replace")
    fields: list[FormField] = []
    # The first delimiter may begin the body, without a line end before it.
    at = -2 if raw.startswith(delimiter[2:]) else (yield from _find_delimiter(raw, delimiter, 0))
    for _ in range(MAX_PARTS):
        rest = REST_OF_DELIMITER.match(raw, at + len(delimiter)) if at != -1 else None
        if rest is None:
            break
        if rest[0] == b"--":
            return fields
        head_start = rest.end() - 2
        head_end = raw.find(b"\r\n\r\n", head_start, head_start + MAX_HEAD)
        head = bytes(raw[head_start:head_end])
        if head_end < 0 or delimiter in head:
            break
        at = yield from _find_delimiter(raw, delimiter, head_end + 4)
        name = _name_of(head)
        if name is not None:
            fields.append(FormField(name, head_end + 4, at))
    return []


def _find_delimiter(raw: RawBytes, delimiter: bytes, start: int) -> Generator[None, None, int]:
    """Return where the next delimiter begins, -1 if there is none. Content may contain lines that begin like one."""
    false = 0
    while start < len(raw) and false < _MAX_FALSE:
        at = raw.find(delimiter, start, start + _SEARCHED + len(delimiter))
        if at >= 0 and REST_OF_DELIMITER.match(raw, at + len(delimiter)):
            return at
        false += at >= 0
        start = at + 1 if at >= 0 else start + _SEARCHED
        yield
    return -1


def read_disposition(head: bytes) -> dict[str, str] | None:
    """Return the parameters of a part's Content-Disposition; None if its headers are ambiguous."""
    found: str | None = None
    for line in _FOLD.sub(b" ", head).decode("latin-1").split("\r\n"):
        if "\r" in line or "\n" in line:
            return None
        header, _, value = line.partition(":")
        if header.strip(" \t").lower() == "content-disposition":
            if found is not None:
                return None
            found = value
    return read_parameters(found) if found is not None else None


def _name_of(head: bytes) -> str | None:
    """Return the name of a field; None for a file and for a part whose headers are ambiguous."""
    parameters = read_disposition(head)
    if parameters is None or "filename" in parameters or "filename*" in parameters:
        return None
    return parameters.get("name")
