"""Relayed bodies: where they name their model, and that nothing else of them changes."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.wire.relay import FormBody, JsonBody, OpaqueBody, RawCall

KIND = "multipart/form-data; boundary=b0und"


def part(name: str, value: bytes, *, head: str = "") -> bytes:
    disposition = head or f'Content-Disposition: form-data; name="{name}"'
    return f"--b0und\r\n{disposition}\r\n\r\n".encode() + value + b"\r\n"


END = b"--b0und--\r\n"


def read(raw: bytes, kind: str = KIND) -> FormBody:
    slices = FormBody.read(raw, kind)
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return done.value


def sent(body: FormBody | JsonBody | OpaqueBody, model: str | None) -> bytes:
    return b"".join(body.pieces(model))


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_only_the_model_of_a_form_changes(before: bytes, after: bytes) -> None:
    raw = part("file", before) + part("model", b"small") + part("other", after) + END
    body = read(raw)

    assert body.model == "small"
    assert sent(body, None) == raw
    assert sent(body, "large") == part("file", before) + part("model", b"large") + part("other", after) + END


@pytest.mark.parametrize(
    "head",
    [
        'content-disposition: form-data; name="model"',
        "Content-Disposition: form-data; name=model",
        'Content-Type: text/plain\r\nContent-Disposition: form-data;name="model"',
        'Content-Disposition: form-data; name="model"\r\nContent-Type: text/plain',
    ],
)
def test_the_field_is_found_however_its_head_is_written(head: str) -> None:
    assert read(part("", b"small", head=head) + END).model == "small"
    assert read(part("", b"small", head=head) + END, 'multipart/form-data; boundary="b0und"').model == "small"


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"", KIND),
        (END, KIND),
        (part("model", b"small"), "multipart/form-data"),
        (part("model", b"small")[:-2], KIND),
        (part("model2", b"small") + END, KIND),
        (part("", b"x", head='Content-Disposition: form-data; filename="name=model"; name="file"') + END, KIND),
        (part("file", b'\r\nContent-Disposition: form-data; name="model"\r\n\r\nsmall') + END, KIND),
        (part("model", b"x" * 1000) + END, KIND),
        (b"--b0und\r\n" + b"x" * 9000, KIND),
        (part("file", b"") * 100 + part("model", b"small") + END, KIND),  # the search is bounded
    ],
)
def test_a_form_without_a_usable_field_passes_unchanged(raw: bytes, kind: str) -> None:
    body = read(raw, kind)

    assert body.model is None
    assert sent(body, "large") == raw


def test_a_form_that_names_two_models_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="more than one field"):
        read(part("model", b"small") + part("model", b"large") + END)


def test_a_json_body_is_serialized_again_only_if_its_model_changes() -> None:
    raw = b'{ "input" : "\\u00fc", "model":"small" }'
    body = JsonBody(raw, json.loads(raw))

    assert sent(body, None) == raw
    assert json.loads(sent(body, "large")) == {"input": "ü", "model": "large"}


@pytest.mark.parametrize(("replacement", "data"), [(None, b"named"), ("small", b"named"), ("large", b"changed")])
def test_a_call_replaces_the_name_only_where_it_differs(replacement: str | None, data: bytes) -> None:
    raw = b'{"model": "small"}'
    call = RawCall("POST", "/v1/embeddings", JsonBody(raw, json.loads(raw))).for_model(replacement)

    assert (b"".join(call.data) == raw) is (data == b"named")
    assert call.served == (replacement or "small")


def test_a_call_without_a_model_stays_as_it_is() -> None:
    call = RawCall("POST", "/tokenize", JsonBody(b'{"content": 1}', {"content": 1})).for_model("large")

    assert (b"".join(call.data), call.served) == (b'{"content": 1}', "large")


def test_large_bodies_are_sent_in_slices_without_a_copy() -> None:
    raw = bytearray(1_000_000)
    pieces = OpaqueBody(raw).pieces(None)

    assert max(map(len, pieces)) <= 256 * 1024
    assert all(isinstance(piece, memoryview) and piece.obj is raw for piece in pieces)
    assert re.fullmatch(b"\x00{1000000}", b"".join(pieces))
