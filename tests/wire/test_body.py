"""The first bytes of a body decide how it is parsed; without memory for it the request is an error."""

from __future__ import annotations

from json import JSONDecodeError

import orjson
import pytest

from forge_proxy.core.errors import OutOfMemory
from forge_proxy.wire.backends.responses import UnreadableResponse, parse_response
from forge_proxy.wire.body import detect_format
from forge_proxy.wire.clients.body import read_body


@pytest.mark.parametrize(
    ("begins", "form"),
    [
        (b"", None),
        (b" \r\n\t", None),
        (b"\xef", None),
        (b"\xef\xbb\xbf", None),
        (b"d", None),
        (b"data", None),
        (b"data:", "events"),
        (b"data: {", "events"),
        (b"\xef\xbb\xbfdata:{", "events"),
        (b": ping", "events"),
        (b"event: x", "events"),
        (b"id:1", "events"),
        (b"retry: 3", "events"),
        (b"{", "json"),
        (b"\n\n  {", "json"),
        (b"\xef\xbb\xbf [", "json"),
        (b"<html>", "other"),
        (b"dato", "other"),
        (b"\xff", "other"),
    ],
)
def test_the_first_bytes_say_what_a_body_is(begins: bytes, form: str | None) -> None:
    assert detect_format(begins) == form


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(raw: bytes) -> object:
        raise orjson.JSONDecodeError("Not enough memory to allocate buffer for parsing", "", 0)

    monkeypatch.setattr(orjson, "loads", fails)


@pytest.mark.usefixtures("no_memory")
def test_short_memory_is_nobodys_fault() -> None:
    assert issubclass(orjson.JSONDecodeError, JSONDecodeError)
    with pytest.raises(OutOfMemory, match="not enough memory to read the body"):
        read_body(b"{}")
    with pytest.raises(OutOfMemory, match="the model server's response"):
        parse_response(b"{}")


@pytest.mark.parametrize(
    ("body", "words"),
    [(b" ", "the response is empty"), (b"<!DOCTYPE html>", "an HTML page"), (b"nonsense", "not JSON")],
)
def test_what_is_no_json_is_named(body: bytes, words: str) -> None:
    with pytest.raises(UnreadableResponse, match=words):
        parse_response(body)
