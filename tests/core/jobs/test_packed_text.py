"""Long texts are stored in parts: the text is restored exactly, and a text that grows keeps its full parts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.jobs import packed_text
from forge_proxy.core.jobs.errors import JobLimitExceeded, JobNotFound, JobNotReadable
from forge_proxy.core.jobs.packed_text import list_digests, pack, unpack
from tests.properties import examples

PART = 64 * 1024


def restore(text: str) -> str:
    packed = pack(text)
    return unpack(packed.text, {part.digest: part.content for part in packed.parts})


@pytest.mark.parametrize("length", [0, 1, PART - 2, PART - 1, PART, 2 * PART - 2, 2 * PART - 1, 3 * PART + 5])
@pytest.mark.parametrize("letter", ["a", "é", "😀"])
def test_a_text_is_restored_at_every_length(letter: str, length: int) -> None:
    text = json.dumps(letter * (length // len(letter.encode())), ensure_ascii=False)

    assert restore(text) == text


@examples(30)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50), count=st.integers(1, 8_000))
def test_any_text_is_restored(text: str, count: int) -> None:
    whole = json.dumps(text * count, ensure_ascii=False)

    assert restore(whole) == whole


def test_a_short_text_has_no_parts() -> None:
    assert pack("x" * PART).parts == ()
    assert len(pack("x" * (PART + 1)).parts) == 2


def test_a_text_that_grows_keeps_its_full_parts() -> None:
    steps = [f"step {number} " for number in range(30_000)]

    before, after = pack("".join(steps[:20_000])), pack("".join(steps))

    *full, rest = before.parts
    assert len(full) > 1
    assert after.parts[: len(full)] == tuple(full)
    assert rest.digest not in list_digests(after.text)
    assert list_digests(after.text) == tuple(part.digest for part in after.parts)


def test_a_missing_part_is_an_error() -> None:
    packed = pack("x" * 3 * PART)

    with pytest.raises(JobNotReadable, match="a part of the stored state is missing"):
        unpack(packed.text, {})


def test_a_text_whose_references_are_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x" * 3 * PART
    monkeypatch.setattr(packed_text, "MAX_STATE_BYTES", len(pack(text).text))
    pack(text)

    monkeypatch.setattr(packed_text, "MAX_STATE_BYTES", len(pack(text).text) - 1)

    with pytest.raises(JobLimitExceeded, match=f"a state of {3 * PART} bytes is too long to be stored"):
        pack(text)


def test_an_error_quotes_the_beginning_of_a_long_id() -> None:
    assert str(JobNotFound("j" * 80)) == f"no job '{'j' * 80}' here"
    assert str(JobNotFound("j" * 81)) == f"no job '{'j' * 80}…' here"
