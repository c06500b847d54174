"""Fields of multipart forms: nothing but a field can be read as one, whatever the names and contents of the others."""

from __future__ import annotations

import time
from collections.abc import Generator
from email import message_from_bytes
from typing import Any

import httpx
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from forge_proxy.wire.multipart import find_fields, read_parameters

END = b"--b0und--\r\n"


def run(slices: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return done.value


def fields_of(raw: bytes, boundary: str = "b0und") -> list[tuple[str, bytes]]:
    return [(one.name, raw[one.start : one.end]) for one in run(find_fields(raw, boundary))]


def part(head: str, value: bytes = b"small") -> bytes:
    return f"--b0und\r\n{head}\r\n\r\n".encode() + value + b"\r\n"


HOSTILE = st.text(st.sampled_from(list('";=\\ \t%ümodelname-b0')), max_size=40)


@given(HOSTILE.filter(bool), HOSTILE, st.binary(max_size=60))
@example('x"; name="model', "file", b"\r\n--b0und")
@example('x\\"; name="model', "file", b"")
@example('x; name=model; y="', 'a"; name="model', b'\r\nContent-Disposition: form-data; name="model"\r\n\r\nevil')
def test_no_file_poses_as_a_field_however_a_client_writes_its_name(file: str, name: str, content: bytes) -> None:
    request = httpx.Request(
        "POST", "http://x", data={"model": "small"}, files={name: (file, content)},
        headers={"content-type": "multipart/form-data; boundary=b0und"},
    )  # fmt: skip
    raw = request.read()
    assume(content.count(b"\r\n--b0und") == 0)

    assert fields_of(raw) == [("model", b"small")]


@pytest.mark.parametrize(
    "head",
    [
        'Content-Disposition: form-data; filename="name=model"; name="file"',
        'Content-Disposition: form-data; name="file"; filename="a; name=model"',
        'Content-Disposition: form-data; name="file"; filename="a\\"; name=\\"model"',
        'Content-Disposition: form-data; name="file"; filename="a"; name="model"',
        'Content-Disposition: form-data; name="model"; name="file"',
        'Content-Disposition: form-data; name="model"; filename="a.wav"',
        'Content-Disposition: form-data; name="model"; filename=""',
        "Content-Disposition: form-data; name=\"model\"; filename*=UTF-8''a.wav",
        'Content-Disposition: form-data; filename="a\r\n ; name=model"; name="file"',
        'Content-Disposition: form-data; name="file"\r\nContent-Disposition: form-data; name="model"',
        'Content-Disposition: form-data; x"name="model"',
        'Content-Disposition: form-data; name="model',
        'Content-Disposition: form-data; name="mo\rdel"',
        'X-Content-Disposition: form-data; name="model"',
        'Content-Type: text/plain; x="\nContent-Disposition: form-data; name=model"',
        "",
    ],
)
def test_a_part_whose_head_is_a_file_or_ambiguous_is_no_field(head: str) -> None:
    assert all(name != "model" for name, _ in fields_of(part(head) + END))


@pytest.mark.parametrize(
    "head",
    [
        'Content-Disposition: form-data; name="model"',
        "content-disposition:form-data;name=model",
        'Content-Disposition: form-data;\r\n\tname="model"',
        'Content-Type: text/plain; charset="utf-8"\r\nContent-Disposition: form-data; NAME="model" ;',
        'Content-Disposition: form-data; name="model"; note="a \\"quoted\\" word"',
    ],
)
def test_a_field_is_found_however_its_head_is_written(head: str) -> None:
    assert fields_of(part(head) + END) == [("model", b"small")]


@given(st.lists(st.tuples(st.sampled_from(["model", "file", "x"]), st.binary(max_size=40)), max_size=5), st.binary())
def test_the_same_fields_as_the_standard_library_finds(parts: list[tuple[str, bytes]], preamble: bytes) -> None:
    assume(not any(b"--b0und" in value for _, value in parts) and b"--b0und" not in preamble)
    assume(not any(b"\r" in value.replace(b"\r\n", b"") or b"\n" in value for _, value in parts))  # email converts them
    raw = b"".join(part(f'Content-Disposition: form-data; name="{name}"', value) for name, value in parts) + END
    mail = message_from_bytes(b'Content-Type: multipart/form-data; boundary="b0und"\r\n\r\n' + raw)
    known = [one for one in mail.walk() if not one.is_multipart()] if parts else []
    expected = [(one.get_param("name", header="content-disposition"), one.get_payload(decode=True)) for one in known]

    assert fields_of(raw) == expected
    assert fields_of(preamble + b"\r\n" + raw) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"\r\n--b0undary",
        b"--b0und\r\n",
        b"\n--b0und\r\n",
        b"\r\n-b0und\r\n",
        b"\r\n--b0un\r\n--b0",
    ],
)
def test_content_that_resembles_a_delimiter_ends_no_part(content: bytes) -> None:
    head = 'Content-Disposition: form-data; name="x"'

    assert fields_of(part(head, content) + END) == [("x", content)]


@pytest.mark.parametrize(
    "raw",
    [b"", END, b"--b0und", b"--b0und\r\n", part('Content-Disposition: form-data; name="model"'), b"--b0und\r\nx" * 9],
)
def test_a_body_that_is_not_well_formed_has_no_fields(raw: bytes) -> None:
    assert fields_of(raw) == []


def test_a_value_may_be_empty() -> None:
    head = 'Content-Disposition: form-data; name="model"'

    assert fields_of(part(head, b"") + part(head) + END) == [("model", b""), ("model", b"small")]


@pytest.mark.long
@pytest.mark.parametrize(
    "content",
    [b"\r\n--b0und" * 2_000_000, b"\r\n--b0und" + b" " * 20_000_000, b"\r\n--b0un" * 2_000_000, bytes(20_000_000)],
)
def test_no_slice_of_a_large_body_blocks_the_event_loop(content: bytes) -> None:
    body = part('Content-Disposition: form-data; name="x"', content) + END

    # CPU time, the least of several runs: the load of the machine is no part of it
    assert min(_longest_slice(body) for _ in range(3)) < 0.05


def _longest_slice(body: bytes) -> float:
    longest, began = 0.0, time.thread_time()
    for _ in find_fields(body, "b0und"):
        longest, began = max(longest, time.thread_time() - began), time.thread_time()
    return longest


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("form-data", {}),
        ('multipart/form-data; boundary="a b"', {"boundary": "a b"}),
        ("multipart/form-data; boundary=----=_Part_1", {"boundary": "----=_Part_1"}),
        ('multipart/form-data; x="boundary=evil"; boundary=b;', {"x": "boundary=evil", "boundary": "b"}),
        ("multipart/form-data; boundary=a; boundary=b", None),
        ("multipart/form-data boundary=a", None),
        ('multipart/form-data; boundary="a', None),
        ("", None),
        ("; name=model", None),
    ],
)
def test_parameters_are_read_only_from_a_well_formed_header(value: str, expected: dict[str, str] | None) -> None:
    assert read_parameters(value) == expected
