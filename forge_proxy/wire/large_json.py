"""Parses and serializes large JSON in slices, so that the event loop can run other tasks between them.

This belongs in `wire` because it only converts bytes to values and back; `api` and `backends` schedule the slices.
Parsing 60 MB in one call would block the event loop for 100 ms, mostly for page faults of new memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from itertools import repeat
from typing import TypeAlias

import orjson

from forge_proxy.core.jsontypes import Json, is_list, is_object

PIECE = 256 * 1024
"""Bytes parsed or serialized per slice. Longer strings are split."""
_SCANNED = 8 * 1024
"""Bytes outside of strings that are tokenized per slice: 7 ms for `[],[],…`."""
MAX_KEY = PIECE
_MAX_GAP = 4 * PIECE
_MAX_READ, _MAX_WRITTEN = 1024, 254
"""Maximum nesting depth, as in orjson."""
_PARTS = 4096
"""Values serialized per slice."""
_SPACE = b" \t\r\n"
_TOKENS = re.compile(rb'"[^"]*("?)|[\[\]{},]')
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_LONGEST_ESCAPE = 6

_QUOTE, _COMMA, _ARRAY, _OBJECT, _OBJECT_END = b'",[{}'
_Token: TypeAlias = tuple[int, int, int]
"""First byte, start and end of a token. A tuple, because there may be a million."""


class _Container:
    """An object or array whose end has not been parsed."""

    __slots__ = ("is_object", "key", "value")

    def __init__(self, key: tuple[int, int], *, is_object: bool) -> None:
        self.is_object = is_object
        self.key = key
        """Start and end of its key, if it is a value of an object."""
        self.value: list[Json] | dict[str, Json] | None = None
        """The part that has been parsed; None if there is none yet."""


def read_slices(raw: bytes | bytearray) -> Generator[None, None, Json]:
    """Return the same object or array as `orjson.loads`. Yields between slices.

    Raises `orjson.JSONDecodeError` in the same cases, and for a key of more than 256 KiB or white space of more than
    1 MiB between two values.
    """
    return (yield from _Reader(raw).read())


class _Reader:
    """Parses piece by piece. A piece ends at a comma, around a long string, or at the end of a container that began in
    an earlier piece. Containers that are open at that point are closed for the parser and extended by the next piece.
    """

    def __init__(self, raw: bytes | bytearray) -> None:
        self._raw = raw
        self._open: list[_Container] = []
        """The open containers, outermost first."""
        self._parsed = 0
        """Number of bytes parsed."""
        self._key = (0, 0)
        """Start and end of the latest key."""

    def read(self) -> Generator[None, None, Json]:
        """See `read_slices`."""
        previous, root = 0, None
        for token in self._tokens():
            if token is None:
                yield
                continue
            kind, begin, end = token
            if kind == _QUOTE:
                is_key = previous in (_OBJECT, _COMMA) and bool(self._open) and self._open[-1].is_object
                if end - begin > (MAX_KEY if is_key else PIECE):
                    yield from self._add_long(begin, end, is_key=is_key)
                elif is_key:
                    self._key = (begin, end)
            elif kind in (_ARRAY, _OBJECT):
                self._open.append(_Container(self._key, is_object=kind == _OBJECT))
                if len(self._open) > _MAX_READ:
                    raise self._error("nested too deeply", begin)
            elif kind == _COMMA:
                if begin - self._parsed > PIECE:
                    self._cut(begin)
            elif (root := self._close(kind, begin, end)) is not None:
                yield from self._check_rest(end)
                return root
            previous = kind
        raise self._error("unexpected end of data" if self._open else "expected an object or array", len(self._raw))

    def _tokens(self) -> Iterator[_Token | None]:
        """Yield strings, brackets and commas; None after each slice."""
        raw, size = self._raw, len(self._raw)
        at, begun = 0, -1
        while at < size:
            end = at + (_SCANNED if begun < 0 else PIECE)
            piece = raw[at:end]
            if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # not in the middle of an escape
                piece = raw[at : end + 1]
            plain = piece.replace(b"\\\\", b"..").replace(b'\\"', b"..")
            if begun >= 0:
                length = plain.find(b'"') + 1
                at += length or len(piece)
                if length:
                    yield (_QUOTE, begun, at)
                    begun = -1
                yield None
                continue
            for found in _TOKENS.finditer(plain):
                begin, end = found.span()
                kind = plain[begin]
                if kind == _QUOTE and not found[1]:
                    begun = at + begin
                else:
                    yield (kind, at + begin, at + end)
            at += len(piece)
            yield None

    def _cut(self, end: int) -> None:
        """Parse up to a comma."""
        if self._raw[self._parsed : end].rstrip(_SPACE).endswith((b"[", b"{")):
            raise self._error("unexpected character", end)
        self._parse(end)

    def _close(self, kind: int, begin: int, end: int) -> Json:
        """Close the innermost container. Returns the outermost one at its end, else None."""
        if not self._open or self._open[-1].is_object != (kind == _OBJECT_END):
            raise self._error("unexpected character", begin)
        container = self._open[-1]
        if container.value is not None:
            self._parse(begin)
        elif len(self._open) == 1:
            self._open.clear()
            self._check_gap(end)
            return self._loads(self._raw[:end], 0)
        self._open.pop()
        if container.value is None:
            return None
        self._parsed = end
        return None if self._open else container.value

    def _add_long(self, begin: int, end: int, *, is_key: bool) -> Generator[None]:
        """Parse up to a long string, then add the string to the innermost container."""
        if is_key:
            raise self._error(f"a key of more than {MAX_KEY} bytes", begin)
        if not self._open:
            raise self._error("expected an object or array", begin)
        self._parse(begin, b"null")
        self._parsed = end
        text = yield from self._text(begin + 1, end - 1)
        inside = self._open[-1].value
        if isinstance(inside, list):
            inside[-1] = text
        elif inside is not None:
            inside[self._name(self._key)] = text

    def _text(self, at: int, end: int) -> Generator[None, None, str]:
        """Return the string between two positions. It has one reference meanwhile, so that CPython appends in place."""
        text = ""
        while at < end:
            cut = end if end - at <= PIECE else self._safe_cut(at + PIECE)
            piece = self._loads(b'"%b"' % self._raw[at:cut], at)
            text += piece if isinstance(piece, str) else ""
            at = cut
            yield
        return text

    def _safe_cut(self, cut: int) -> int:
        """Return the last position up to `cut` that is not inside a character, an escape or a surrogate pair."""
        raw = self._raw
        while raw[cut] & 0xC0 == 0x80:
            cut -= 1
        escape = raw.rfind(b"\\", cut - _LONGEST_ESCAPE + 1, cut)
        if escape >= 0 and self._is_escape(escape) and (cut - escape == 1 or raw[escape + 1] == ord("u")):
            cut = escape
        high = cut - _LONGEST_ESCAPE
        return high if _HIGH_SURROGATE.match(raw, high, cut) and self._is_escape(high) else cut

    def _is_escape(self, at: int) -> bool:
        """Return whether the backslash at this position begins an escape."""
        before = at
        while self._raw[before - 1] == ord("\\"):
            before -= 1
        return (at - before) % 2 == 0

    def _parse(self, end: int, value: bytes = b"") -> None:
        """Parse up to `end`, followed by `value`, as if all open containers ended there."""
        self._check_gap(end)
        known = next((place for place, one in enumerate(self._open) if one.value is None), len(self._open))
        fresh = self._open[known:]
        text = self._raw[self._parsed : end] + value
        text += b"".join(b"}" if one.is_object else b"]" for one in reversed(fresh))
        if known:
            self._extend(self._open[known - 1], text.lstrip(_SPACE))
        for place, one in enumerate(fresh, known):
            found = self._child(self._open[place - 1], one) if place else self._loads(text, 0)
            if not is_object(found) and not is_list(found):
                raise self._error("unexpected character", end)
            one.value = found
        self._parsed = end

    def _check_gap(self, end: int) -> None:
        if end - self._parsed > _MAX_GAP:
            raise self._error(f"more than {_MAX_GAP} bytes between two values", self._parsed)

    def _extend(self, container: _Container, text: bytes | bytearray) -> None:
        """Extend a container by parsed text: nothing, or a comma and at least one value."""
        if not text:
            return
        if text[:1] != b",":
            raise self._error("expected a comma", self._parsed)
        items = self._loads((b"{%b}" if container.is_object else b"[%b]") % text[1:], self._parsed)
        if not items:
            raise self._error("trailing comma", self._parsed)
        if isinstance(container.value, list) and is_list(items):
            container.value.extend(items)
        elif isinstance(container.value, dict) and is_object(items):
            container.value.update(items)

    def _child(self, parent: _Container, child: _Container) -> Json:
        """Return the parsed part of a container from its parent."""
        if isinstance(parent.value, dict):
            return parent.value[self._name(child.key)]
        return parent.value[-1] if parent.value else None

    def _name(self, key: tuple[int, int]) -> str:
        return str(self._loads(self._raw[slice(*key)], key[0]))

    def _check_rest(self, at: int) -> Generator[None]:
        for place in range(at, len(self._raw), PIECE):
            if self._raw[place : place + PIECE].strip(_SPACE):
                raise self._error("unexpected content after document", place)
            yield

    def _loads(self, text: bytes | bytearray, at: int) -> Json:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as exc:
            raise self._error(exc.msg, at + exc.pos) from exc

    def _error(self, why: str, at: int) -> orjson.JSONDecodeError:
        return orjson.JSONDecodeError(why, "", at)


def write_slices(value: Json, dumps: Callable[[Json], bytes] = orjson.dumps) -> Generator[bytes]:
    """Yield the bytes that `orjson.dumps` would return, in slices. Raises `TypeError` in the same cases.

    `dumps` serializes keys, strings and numbers.
    """
    buffer, count = bytearray(), 0
    for part in _parts(value, dumps):
        buffer += part
        count += 1
        if len(buffer) >= PIECE or count == _PARTS:
            yield bytes(buffer)
            buffer, count = bytearray(), 0
    yield bytes(buffer)


def _parts(value: Json, dumps: Callable[[Json], bytes]) -> Iterator[bytes]:
    levels: list[tuple[Iterator[tuple[str | None, Json]], bytes]] = []
    while True:
        is_first = True
        if is_object(value):
            levels.append((iter(value.items()), b"}"))
            yield b"{"
        elif is_list(value):
            levels.append((zip(repeat(None), value), b"]"))
            yield b"["
        else:
            is_first = False
            yield from _text_parts(value, dumps) if isinstance(value, str) else (dumps(value),)
        if len(levels) > _MAX_WRITTEN:
            raise TypeError("nested too deeply")
        entry = None
        while levels and (entry := next(levels[-1][0], None)) is None:
            is_first = False
            yield levels.pop()[1]
        if entry is None:
            return
        key, value = entry
        separator = b"" if is_first else b","
        yield separator if key is None else b"%b%b:" % (separator, dumps(key))


def _text_parts(text: str, dumps: Callable[[Json], bytes]) -> Iterator[bytes]:
    if len(text) <= PIECE:
        yield dumps(text)
        return
    yield b'"'
    for at in range(0, len(text), PIECE):
        yield dumps(text[at : at + PIECE])[1:-1]
    yield b'"'
