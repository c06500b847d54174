"""Edits and responses as they change files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.tasks.edits.apply import apply_edits
from forge_proxy.core.tasks.edits.response import apply_response
from forge_proxy.core.tasks.edits.text_file import NotText, TextFile
from forge_proxy.core.tasks.models import FileEdits, LLMResponse, NewFile, SearchReplace
from forge_proxy.core.tasks.scopes import WriteScope

ALL = WriteScope(("**",))


def edit(search: str, replace: str) -> SearchReplace:
    return SearchReplace(search=search, replace=replace)


def edited(data: bytes, *edits: SearchReplace, path: str = "a.txt") -> bytes:
    """The file after edits that all apply."""
    done = apply_edits(path, TextFile.decode(data), edits)
    assert not done.faults
    return done.file.encode()


def respond(*, files: dict[str, str] | None = None, edits: dict[str, list[SearchReplace]] | None = None) -> LLMResponse:
    return LLMResponse(
        explanation="",
        files=tuple(NewFile(path=path, content=content) for path, content in (files or {}).items()),
        edits=tuple(FileEdits(path=path, edits=tuple(some)) for path, some in (edits or {}).items()),
    )


def test_s_edits_each_edit_sees_the_result_of_the_one_before() -> None:
    assert edited(b"a\n", edit("a", "b"), edit("b", "c")) == b"c\n"


def test_s_edits_only_those_that_fail_are_reported_and_the_others_applied() -> None:
    done = apply_edits("a.txt", TextFile("one\ntwo\n"), [edit("one", "1"), edit("zzzzzzzz", "?"), edit("two", "2")])

    assert done.file.text == "1\n2\n"
    assert [applied.index for applied in done.applied] == [0, 2]
    assert [(fault.index, fault.reason) for fault in done.faults] == [(1, "unmatched")]
    assert "a.txt: edit 2: `search` does not occur" in str(done.faults[0])


@pytest.mark.parametrize(
    ("search", "replace", "reason"),
    [("", "x", "empty_search"), (" \n", "x", "empty_search"), ("one", "one", "no_op"), ("one", "# ...", "elided")],
)
def test_s_errors_an_edit_that_says_nothing_is_rejected(search: str, replace: str, reason: str) -> None:
    done = apply_edits("a.txt", TextFile("one\n"), [edit(search, replace)])

    assert (done.file.text, [fault.reason for fault in done.faults]) == ("one\n", [reason])


def test_s_edits_python_that_parsed_has_to_parse_after() -> None:
    before = TextFile("def f():\n    return 1\n")

    done = apply_edits("a.py", before, [edit("return 1", "return (1")])

    assert done.file == before
    assert [(fault.index, fault.reason) for fault in done.faults] == [(None, "syntax")]
    assert "line 2" in done.faults[0].message


def test_s_edits_python_that_did_not_parse_may_be_edited() -> None:
    assert edited(b"def f(:\n    x = 1\n", edit("x = 1", "x = 2"), path="a.py") == b"def f(:\n    x = 2\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\ntwo\r\nthree\r\n", b"one\r\n2\r\nII\r\nthree\r\n"),
        (b"one\ntwo\r\nthree\n", b"one\n2\nII\r\nthree\n"),
        (b"one\ntwo", b"one\n2\nII"),
        (b"\xef\xbb\xbfone\ntwo\n", b"\xef\xbb\xbfone\n2\nII\n"),
        ("\ufeffone\ntwo\n".encode("utf-16-le"), "\ufeffone\n2\nII\n".encode("utf-16-le")),
        ("\ufeffone\r\ntwo\r\n".encode("utf-16-be"), "\ufeffone\r\n2\r\nII\r\n".encode("utf-16-be")),
        ("\ufeffone\ntwo\n".encode("utf-32-le"), "\ufeffone\n2\nII\n".encode("utf-32-le")),
        ("\ufeffone\ntwo\n".encode("utf-32-be"), "\ufeffone\n2\nII\n".encode("utf-32-be")),
        (b"caf\xe9\ntwo\n", b"caf\xe9\n2\nII\n"),
    ],
)
def test_s_edits_line_endings_encoding_and_final_newline_stay(before: bytes, after: bytes) -> None:
    assert edited(before, edit("two", "2\nII")) == after


def test_the_final_newline_stays_if_the_last_line_is_replaced() -> None:
    assert edited(b"one\ntwo", edit("two", "2\n")) == b"one\n2"
    assert edited(b"one\ntwo\n", edit("two\n", "2")) == b"one\n2\n"


def test_a_character_that_the_encoding_does_not_have_is_an_error() -> None:
    with pytest.raises(NotText, match="latin-1, which has no '€'"):
        edited(b"caf\xe9\n", edit("caf", "€"))


def test_a_binary_file_is_no_text() -> None:
    with pytest.raises(NotText, match="binary"):
        TextFile.decode(b"\x7fELF\0\0")


def test_s_answer_new_files_are_written_and_existing_ones_edited() -> None:
    response = respond(files={"new.py": "x = 1"}, edits={"old.py": [edit("y", "z")]})

    done = apply_response(response, {"new.py": None, "old.py": b"y = 1\n"}, ALL)

    assert done.files == {"new.py": b"x = 1\n", "old.py": b"z = 1\n"}
    assert done.is_complete


@pytest.mark.parametrize(
    ("response", "message", "is_outside"),
    [
        (respond(), "response: it contains neither files nor edits", False),
        (respond(files={"a": "x"}, edits={"a": [edit("x", "y")]}), "a: it is both in `files` and in `edits`", False),
        (respond(edits={"gone": [edit("x", "y")]}), "gone: there is no such file", False),
        (respond(files={"a": "present\n"}), "a: the content is that of the present file", False),
        (respond(files={"a": "x\n# ... rest of the code\n"}), "a: it omits code", False),
        (respond(files={"../a": "x"}), "../a: the path leaves the repository", True),
        (respond(files={"/etc/passwd": "x"}), "/etc/passwd: the path is absolute", True),
        (respond(files={".git/config": "x"}), ".git/config: the path is inside '.git'", True),
        (respond(files={"a": "x" * 1_100_000}), "a: 1100001 bytes", False),
    ],
)
def test_s_answer_what_cannot_be_written_is_rejected(response: LLMResponse, message: str, is_outside: bool) -> None:
    done = apply_response(response, {"a": b"present\n", "gone": None}, ALL)

    assert done.files == {}
    assert str(done.rejected[0]).startswith(message)
    assert done.rejected[0].is_outside == is_outside


def test_d8_a_path_outside_the_scope_is_rejected() -> None:
    scope = WriteScope(("src/**",), ("src/generated/**",))

    done = apply_response(respond(files={"src/generated/a.py": "", "setup.py": "", "src/b.py": "1"}), {}, scope)

    assert [one.path for one in done.rejected] == ["src/generated/a.py", "setup.py"]
    assert [*done.files] == ["src/b.py"]


LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=12), max_size=12)


@given(LINES, st.text(min_size=1, max_size=8), st.booleans())
def test_an_edit_that_matches_nowhere_changes_nothing(lines: list[str], replace: str, has_crlf: bool) -> None:
    break_ = "\r\n" if has_crlf else "\n"
    before = TextFile(break_.join(lines))
    search = "\ue000\ue001\ue002" * 40  # which no text of these resembles

    done = apply_edits("a.txt", before, [edit(search, replace)])

    assert done.file == before
    assert done.faults


@given(st.data())
def test_random_edits_of_real_files_round_trip(data: st.DataObject) -> None:
    """An edit of a range that occurs once, and the edit back, leave the file as it was, byte for byte."""
    source = data.draw(st.sampled_from(SOURCES))
    text = TextFile.decode(source).normalized
    lines = text.splitlines(keepends=True)
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first, min(len(lines) - 1, first + 6)))
    search = "".join(lines[first : last + 1])
    replace = f"\ue000{data.draw(st.integers(0, 999))}\n"
    if text.count(search) != 1 or not search.strip():
        return

    there = apply_edits("a.txt", TextFile.decode(source), [edit(search, replace)])
    back = apply_edits("a.txt", there.file, [edit(replace, search)])

    assert (there.faults, back.faults) == ((), ())
    assert there.file.encode() != source
    assert back.file.encode() == source


def _sources() -> list[bytes]:
    from pathlib import Path

    files = sorted(Path(__file__).parents[3].glob("forge_proxy/core/*.py"))[:12]
    plain = [file.read_bytes() for file in files]
    return [
        *plain,
        *(text.replace(b"\n", b"\r\n") for text in plain[:4]),
        b"\xef\xbb\xbf" + plain[0],
        plain[1].rstrip(),
    ]


SOURCES = _sources()
