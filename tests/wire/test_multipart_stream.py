"""Forms that are parsed as they arrive: the same parts however they are cut, and nothing of them is guessed."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.wire.multipart_stream import MultipartParser, PartStart, read_boundary

HEAD = b'--b0und\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
END = b"\r\n--b0und--\r\n"


def parse(raw: bytes, size: int = 10_000) -> list[tuple[PartStart, bytes]]:
    parser = MultipartParser("b0und")
    parts: list[tuple[PartStart, bytes]] = []
    for at in range(0, len(raw), size):
        for event in parser.feed(raw[at : at + size]):
            if isinstance(event, PartStart):
                parts.append((event, b""))
            else:
                parts[-1] = (parts[-1][0], parts[-1][1] + event)
    parser.close()
    return parts


CONTENT = st.lists(
    st.sampled_from([b"\r\n", b"--b0und", b"\r\n--b0und", b"-", b"\r", b" ", b"x", b"\r\n--b0u", b"{}"]), max_size=12
).map(b"".join)


@given(CONTENT, st.text(max_size=20), st.integers(1, 30))
def test_a_form_of_httpx_has_the_same_parts_however_it_is_cut(content: bytes, field: str, size: int) -> None:
    assume(not any(f"\r\n--b0und{end}".encode() in b"\r\n" + content + b"\r\n" for end in ("--", "\r\n", " \r\n")))
    assume(b"\r\n--b0und  \r\n" not in content)
    assume(b"\r\n--b0und" not in content.replace(b" ", b"") + b"\r\n" or b" " not in content)
    field_bytes = field.encode()
    assume(b"\r\n--b0und" not in field_bytes)
    request = httpx.Request(
        "POST", "http://x", data={"purpose": field}, files={"file": ("é.jsonl", content)},
        headers={"content-type": "multipart/form-data; boundary=b0und"},
    )  # fmt: skip

    expected = [(PartStart("purpose", None), field_bytes), (PartStart("file", "é.jsonl"), content)]
    assert parse(request.read()) == parse(request.read(), size) == expected


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("raw", "content"),
    [
        (HEAD + END, b""),
        (b"preamble\r\n" + HEAD + b"x" + END + b"epilogue", b"x"),
        (b"\r\n" + HEAD + b"x\r\n--b0undary" + END, b"x\r\n--b0undary"),
        (HEAD + b"\r\n" + END, b"\r\n"),
        (HEAD + b"x" + b"\r\n--b0und \t\r\n" + HEAD[9:] + b"y" + END, b"x"),
    ],
)
def test_the_content_of_a_file_is_kept_byte_by_byte(raw: bytes, content: bytes, size: int) -> None:
    assert parse(raw, size)[0] == (PartStart("file", "a"), content)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "ends before its last boundary"),
        (HEAD + b"cut", "ends before its last boundary"),
        (b"--b0und\r\n\r\nx" + END, "one content-disposition with a name"),
        (HEAD.replace(b"; name", b"; nam") + END, "one content-disposition with a name"),
        (HEAD.replace(b'"file";', b'"file"; name="b";') + END, "one content-disposition with a name"),
        (b"--b0und\r\nX: " + b"y" * 9000, "more than 8192 bytes"),
        (HEAD + (b"\r\n" + HEAD) * 100 + END, "more than 100 parts"),
    ],
)
def test_a_form_that_is_not_well_formed_is_rejected(raw: bytes, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        parse(raw)


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "application/json",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=" + "b" * 71,
    ],
)
def test_a_form_needs_a_boundary(content_type: str) -> None:
    with pytest.raises(InvalidRequest, match="multipart/form-data with a boundary"):
        read_boundary(content_type)


def test_the_parser_keeps_no_more_than_a_delimiter_of_a_long_file() -> None:
    parser = MultipartParser("b0und")
    received = 0
    for event in parser.feed(HEAD):
        assert isinstance(event, PartStart)
    for _ in range(100):
        pieces = [*parser.feed(b"x" * 50_000)]
        received += sum(len(piece) for piece in pieces if isinstance(piece, bytes))

    assert received > 100 * 50_000 - 100
