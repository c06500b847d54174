"""A request body is one JSON object; anything else is refused with the reason."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.wire.clients.body import read_body
from tests.properties import OBJECTS, examples


@examples(100)
@given(body=OBJECTS)
def test_a_body_is_read_from_its_bytes(body: JsonObject) -> None:
    raw = json.dumps(body).encode()

    assert read_body(raw) == orjson.loads(raw)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "empty; send a JSON object"),
        (b"{", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b'{"a": NaN}', "not valid JSON"),
        (b"[" * 5000, "not valid JSON"),
        (b"[]", "expected a JSON object, got array"),
        (b"null", "expected a JSON object, got null"),
        (b'"{}"', "expected a JSON object, got string"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as refused:
        read_body(raw)

    assert refused.value.at == "body"
