"""Large JSON in slices: the same values, bytes and errors as those of the library that does it in one go."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any, TypeVar

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.wire import large_json
from forge_proxy.wire.large_json import PIECE, read_slices, write_slices
from tests.folding import folded
from tests.properties import TEXTS, VALUES, examples

T = TypeVar("T")


def finish(slices: Generator[Any, None, T]) -> T:
    """What a generator returns."""
    while True:
        try:
            next(slices)
        except StopIteration as stop:
            return stop.value


def read(raw: bytes) -> Any:
    return finish(read_slices(bytearray(raw)))


def set_sizes(patch: pytest.MonkeyPatch, piece: int, scanned: int) -> None:
    patch.setattr(large_json, "PIECE", piece)
    patch.setattr(large_json, "_SCANNED", scanned)
    patch.setattr(large_json, "_MAX_GAP", 10_000)


def expect_same(raw: bytes, piece: int, scanned: int) -> None:
    """The same value as `orjson.loads`, its members in the same order, or an error of the same class."""
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch, piece, scanned)
        try:
            expected = orjson.loads(raw)
        except orjson.JSONDecodeError:
            with pytest.raises(orjson.JSONDecodeError):
                read(raw)
        else:
            if isinstance(expected, dict | list):
                assert json.dumps(read(raw)) == json.dumps(expected)


KEYS = st.sampled_from(["", "a", "b", "é", '"'])
DOCUMENTS = st.recursive(
    VALUES | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=6) | st.lists(st.tuples(KEYS, inner), max_size=6).map(lambda pairs: Members(pairs))
    ),
    max_leaves=20,
)


class Members:
    """The members of an object, some of them with the same key."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def written(value: Any, *, ascii_only: bool, space: str) -> str:
    """JSON, also of `JsonMembers`."""
    if isinstance(value, Members):
        members = [
            f"{json.dumps(key)}{space}:{space}{written(one, ascii_only=ascii_only, space=space)}"
            for key, one in value.pairs
        ]
        return f"{{{space}{f'{space},'.join(members)}{space}}}"
    if isinstance(value, list):
        return f"[{space}{f',{space}'.join(written(one, ascii_only=ascii_only, space=space) for one in value)}]"
    return json.dumps(value, ensure_ascii=ascii_only)


SIZES = st.tuples(st.integers(16, 60), st.integers(1, 30))
"""Of pieces, and of what is scanned at a time. A key fits into a piece."""


@examples(400)
@given(st.lists(DOCUMENTS, max_size=5), st.booleans(), st.sampled_from(["", " ", "\r\n\t"]), SIZES)
def test_values_are_those_of_the_library(
    document: list[Any], ascii_only: bool, space: str, sizes: tuple[int, int]
) -> None:
    raw = written(document, ascii_only=ascii_only, space=space).encode("utf-8", "surrogatepass")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_json, "MAX_KEY", 10_000)
        expect_same(raw, *sizes)


@examples(600)
@given(st.lists(DOCUMENTS, min_size=1, max_size=4), st.data(), SIZES)
def test_broken_documents_are_errors_wherever_they_are_cut(
    document: list[Any], data: st.DataObject, sizes: tuple[int, int]
) -> None:
    raw = bytearray(written(document, ascii_only=data.draw(st.booleans()), space="").encode("utf-8", "surrogatepass"))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from([b"", b",", b"]", b"}", b"[", b"{", b'"', b"\\", b":", b"\xff", b"\x00", b"1", b" ", b",,"])
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_json, "MAX_KEY", 10_000)
        expect_same(bytes(raw), *sizes)


@folded
@pytest.mark.parametrize(
    "raw",
    [
        b"", b" ", b"[", b"{", b"]", b"[1,]", b"[,1]", b'{"a":1,}', b'{,"a":1}', b'["x",,"y"]', b'["x" "y"]',
        b'{"a" 1}',        b'{"a":1 "b":2}', b"[1]]", b"[1],", b"[1]x", b'{"a":[1}', b'["a":1]', b'["\\ud800"]',
        b'["\\ud800\\ud800"]', b'["\\udc00"]', b'["\\ud83d\\ude00"]', b'["\\\\ud83d\\\\ude00"]', b'["\\u12"]',
        b'["\\x"]', b'["\xc3"]', b'["\xf0\x9f\x98\x80"]', b'["\xed\xa0\x80"]', b'["\n"]', b"\xef\xbb\xbf[]",
        b"[NaN]", b"[01]", b"[[[[]]]] ", b'{"a":{"b":[1,2,3]},"a":{"b":[4]},"a":{"c":[5,{"a":1}]}}',
        b'{"":1,"":{"":2,"":[3,"",""]}}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("scanned", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("before", [b"", b'["' + b'\\u00e9\\\\\\"x' * 4 + b'",'])
def test_the_edges_of_json_are_those_of_the_library(raw: bytes, before: bytes, scanned: int) -> None:
    for piece in range(16, 24):
        expect_same(before + raw + (b"]" if before else b""), piece, scanned)


@pytest.mark.parametrize("depth", [1000, 1024, 1025, 3000])
@pytest.mark.parametrize("piece", [20, PIECE])
def test_depth_is_limited_as_in_the_library(depth: int, piece: int) -> None:
    raw = b"[1," * depth + b"2" + b"]" * depth
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch, piece, 100)
        if depth <= 1024:
            value, levels = read(raw), 0
            while isinstance(value, list):
                value, levels = value[-1], levels + 1
            assert (value, levels) == (2, depth)
        else:
            with pytest.raises(orjson.JSONDecodeError):
                read(raw)


def test_a_long_key_and_a_long_gap_are_refused() -> None:
    with pytest.raises(orjson.JSONDecodeError, match="a key of more than 262144 bytes"):
        read(b'{"' + b"k" * 2 * PIECE + b'":1}')
    with pytest.raises(orjson.JSONDecodeError, match="more than 1048576 bytes between two values"):
        read(b"[" + b" " * 5 * PIECE + b"1]")


@pytest.mark.long
@pytest.mark.parametrize("name", ["text", "escapes", "emoji", "emoji last", "messages", "lists"])
def test_the_parser_gets_no_more_than_some_pieces_at_a_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []

    def loads(text: bytes) -> Any:
        parsed.append(len(text))
        return original(text)

    original = orjson.loads
    value = LARGE[name]
    raw = orjson.dumps(value)
    monkeypatch.setattr(large_json.orjson, "loads", loads)
    assert read(raw) == value
    assert max(parsed) <= 3 * PIECE
    assert len(parsed) >= len(raw) // (3 * PIECE)


LARGE: dict[str, Any] = {
    "text": {"m": [{"c": "A" * 3_000_000}]},
    "escapes": {"m": [{"c": '"\\\n\u00e9' * 500_000}]},
    "emoji": {"m": ["\U0001f600" * 400_000]},
    "emoji last": {"m": ["A" * 2_000_000 + "\U0001f600"]},
    "messages": {"m": [{"role": "user", "content": "x" * 240}] * 8_000},
    "lists": {"m": [[]] * 250_000, "o": {str(n): {} for n in range(50_000)}},
}


@pytest.mark.long
@pytest.mark.parametrize("name", LARGE)
def test_large_values_are_serialised_in_slices(name: str) -> None:
    pieces = list(write_slices(LARGE[name]))

    assert b"".join(pieces) == orjson.dumps(LARGE[name])
    assert max(map(len, pieces)) <= 8 * PIECE


@examples(200)
@given(VALUES | DOCUMENTS.filter(lambda value: isinstance(value, str)), st.integers(1, 5))
def test_bytes_are_those_of_the_library(value: Any, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_json, "PIECE", piece)
        try:
            expected = orjson.dumps(value)
        except TypeError:
            with pytest.raises(TypeError):
                list(write_slices(value))
        else:
            assert b"".join(write_slices(value)) == expected


def test_values_nested_too_deeply_to_serialise_are_an_error() -> None:
    value: Any = []
    for _ in range(253):
        value = [value]

    assert b"".join(write_slices(value)) == orjson.dumps(value)
    with pytest.raises(TypeError, match="nested too deeply"):
        list(write_slices([value]))
