"""A text whose framing is wrong is repaired; a repair never changes a line of what it frames."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.chat import ToolGrammar
from forge_proxy.core.tool_grammars.text_check import MatchingText, MismatchedText, UncheckedText, check_text
from tests.core.tool_grammars.grammars import PATCH_GRAMMAR, SUMS
from tests.properties import examples

BODY = "*** Update File: a.py\n@@ def f():\n-    return 1\n+    return 2\n"
PATCH = f"*** Begin Patch\n{BODY}*** End Patch\n"
SQL = ToolGrammar("regex", r"SELECT [a-z, *]+ FROM [a-z]+;")

AT_LINE = (
    '"*** Move to: " or "@@" or "@@ " or "+" or "-" or " " or "*** Add File: " or "*** Delete File: "'
    ' or "*** Update File: " or "*** End Patch"'
)
FRAMED = {
    "as it is": (PATCH, ()),
    "no first line": (f"{BODY}*** End Patch\n", ("missing begin",)),
    "no last line": (f"*** Begin Patch\n{BODY}", ("missing end",)),
    "neither": (BODY, ("missing begin", "missing end")),
    "begun last line": (f"*** Begin Patch\n{BODY}*** End P", ("missing end",)),
    "doubled lines": (f"*** Begin Patch\n{PATCH}*** End Patch\n", ("repeated markers",)),
    "fence": (f"```diff\n{PATCH}```", ("code fence",)),
    "only the end of a fence": (f"{PATCH}```\n", ("code fence",)),
    "JSON object": (json.dumps({"patch": PATCH}), ("JSON",)),
    "JSON command": (json.dumps(["apply_patch", PATCH]), ("JSON",)),
    "JSON command in an object": (json.dumps({"command": ["apply_patch", PATCH]}), ("JSON",)),
    "JSON string": (json.dumps(PATCH), ("JSON",)),
    "heredoc": (f"apply_patch <<'EOF'\n{PATCH}EOF\n", ("heredoc",)),
    "heredoc in JSON": (json.dumps(["bash", "-lc", f"apply_patch <<EOF\n{PATCH}EOF"]), ("JSON", "heredoc")),
    "CRLF": (PATCH.replace("\n", "\r\n"), ("line endings",)),
    "blank lines": (f"\n  \n{PATCH}\n\n", ("blank lines",)),
    "indentation": ("".join(f"    {line}\n" for line in PATCH.splitlines()), ("indentation",)),
    "prose": (f"Here is the patch:\n\n{PATCH}\nThat is all.", ("text around the patch",)),
    "fence, heredoc, no last line": (
        f"```sh\napply_patch <<'PATCH'\n*** Begin Patch\n{BODY}PATCH\n```\n", ("code fence", "heredoc", "missing end"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMED)
def test_wrong_framing_is_repaired(name: str) -> None:
    text, repairs = FRAMED[name]

    assert check_text(PATCH_GRAMMAR, text) == MatchingText(PATCH, repairs)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PATCH.replace("-    return", "    return").replace("@@ def", "def"),
         f'line 3 ("def f():"), column 1: expected {AT_LINE}'),
        (PATCH.replace("+    return 2", "return 2"), None),
        (f"*** Begin Patch\n{BODY[:-4]}", 'the text ends in line 5 ("+    retur"), expected text or end of line'),
        (f"{PATCH}{PATCH}", 'line 7 ("*** Begin Patch"), column 1: expected end of text'),
        (f"*** Begin Patch\n{BODY}\n*** Delete File: b\n*** End Patch\n", None),
        (f"{PATCH}```\n{PATCH}```", None),
        (json.dumps({"old": PATCH, "new": PATCH}), None),
        ("*** Begin Patch\n*** End Patch\n", None),
        ("", None),
        ("\x00", None),
    ],
)  # fmt: skip
def test_wrong_content_is_reported_with_its_line_and_what_was_expected(text: str, reason: str | None) -> None:
    checked = check_text(PATCH_GRAMMAR, text)

    assert isinstance(checked, MismatchedText)
    assert reason is None or checked.reason == reason


@pytest.mark.parametrize("cut", ["", "*** End P"])
def test_the_end_of_a_patch_that_may_be_cut_off_is_not_added(cut: str) -> None:
    checked = check_text(PATCH_GRAMMAR, f"*** Begin Patch\n{BODY}{cut}", is_complete=False)

    assert isinstance(checked, MismatchedText)


def test_a_marker_inside_a_line_of_the_content_ends_no_patch() -> None:
    about = BODY + "@@\n *** Begin Patch\n *** End Patch\n"

    checked = check_text(PATCH_GRAMMAR, f"Patch:\n*** Begin Patch\n{about}")

    assert checked == MatchingText(f"*** Begin Patch\n{about}*** End Patch\n", ("missing end", "text around the patch"))


def test_a_last_line_of_spaces_is_content() -> None:
    """A line of one space is an unchanged empty line."""
    patch = "*** Begin Patch\n*** Update File: a\n+b\n \n*** End Patch\n"

    assert check_text(PATCH_GRAMMAR, patch.removesuffix("*** End Patch\n") + "\n\n") == MatchingText(
        patch, ("blank lines", "missing end")
    )


def test_carriage_returns_that_may_be_content_are_not_removed() -> None:
    text = f"```\n{PATCH}```".replace("1\n", "1\r\n")

    assert isinstance(check_text(PATCH_GRAMMAR, text), MismatchedText)
    assert check_text(PATCH_GRAMMAR, PATCH.replace("1\n", "1\r\n")) == MatchingText(PATCH.replace("1\n", "1\r\n"))


def test_only_grammars_with_the_markers_of_patches_add_them() -> None:
    other = ToolGrammar("lark", PATCH_GRAMMAR.definition.replace("Patch", "Change"))
    text = PATCH.replace("Patch", "Change")

    assert check_text(other, f"```\n{text}```") == MatchingText(text, ("code fence",))
    assert isinstance(check_text(other, text.removesuffix("*** End Change\n")), MismatchedText)


@pytest.mark.parametrize(
    "text",
    ["```sql\nSELECT a FROM b;\n```", '{"query": "SELECT a FROM b;"}', "\n  SELECT a FROM b;\n", "SELECT a FROM b;\n"],
)
def test_the_framing_of_other_grammars_is_repaired_as_well(text: str) -> None:
    checked = check_text(SQL, text)

    assert isinstance(checked, MatchingText)
    assert checked.text == "SELECT a FROM b;"
    assert checked.repairs


@pytest.mark.parametrize(
    ("grammar", "text", "reason"),
    [
        (PATCH_GRAMMAR, "x" * 1_000_001, "a text of more than 1000000 characters"),
        (ToolGrammar("lark", 'start: start start | "a"'), "a" * 10_000, "a text that takes too long to match"),
        (ToolGrammar("lark", "start: ("), "a", "a definition that cannot be read"),
    ],
)
def test_what_cannot_be_checked_is_reported_as_unchecked(grammar: ToolGrammar, text: str, reason: str) -> None:
    assert check_text(grammar, text) == UncheckedText(reason)


def test_many_lines_of_markers_are_searched_in_linear_time() -> None:
    text = "*** Begin Patch\n" * 20_000 + "*** End Patch\n" * 20_000 + "x"

    assert isinstance(check_text(PATCH_GRAMMAR, text), MismatchedText)


LINES = st.text(st.sampled_from("ab *@+-`\"'\\{}<é\t"), max_size=8)
NAMES = st.text(st.sampled_from("ab/. -*"), min_size=1, max_size=8)


@st.composite
def patches(draw: st.DrawFn) -> str:
    """A well-formed patch."""
    hunks: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        name = draw(NAMES)
        match draw(st.sampled_from(["add", "delete", "update"])):
            case "add":
                lines = draw(st.lists(LINES, min_size=1, max_size=4))
                hunks.append(f"*** Add File: {name}\n" + "".join(f"+{line}\n" for line in lines))
            case "delete":
                hunks.append(f"*** Delete File: {name}\n")
            case _:
                moved = draw(st.sampled_from(["", f"*** Move to: {draw(NAMES)}\n"]))
                lines = draw(st.lists(st.tuples(st.sampled_from(["+", "-", " ", "@@ x"]), LINES), max_size=5))
                end = draw(st.sampled_from(["", "*** End of File\n"])) if lines else ""
                body = "".join(f"{prefix}{line}\n" for prefix, line in lines)
                hunks.append(f"*** Update File: {name}\n{moved}{body}{end}")
    return f"*** Begin Patch\n{''.join(hunks)}*** End Patch\n"


@given(patches())
@examples(200)
def test_a_text_that_matches_is_never_changed(patch: str) -> None:
    assert check_text(PATCH_GRAMMAR, patch) == MatchingText(patch)
    assert check_text(PATCH_GRAMMAR, patch[:-1]) == MatchingText(patch[:-1])


@given(
    patches(),
    st.lists(
        st.sampled_from(
            ["no begin", "no end", "fence", "object", "array", "heredoc", "blank", "indent", "crlf", "prose"]
        ),
        min_size=1,
        max_size=2,
        unique=True,
    ),
)
@examples(300)
def test_the_repair_of_a_framed_text_returns_the_text(patch: str, framings: list[str]) -> None:
    text = patch
    for framing in framings:
        text = wrap(framing, text)
    checked = check_text(PATCH_GRAMMAR, text)

    # Two framings may together be ambiguous, and are then not repaired; no repair ever returns another text.
    if isinstance(checked, MatchingText):
        assert checked.text.removesuffix("\n") == patch.removesuffix("\n")
    else:
        assert len(framings) == 2


@given(st.text(st.sampled_from("1+*() -x"), max_size=12))
@examples(100)
def test_a_repair_matches_the_grammar(text: str) -> None:
    grammar = ToolGrammar("lark", SUMS)
    checked = check_text(grammar, f"```\n{text}\n```")

    if isinstance(checked, MatchingText):
        assert check_text(grammar, checked.text) == MatchingText(checked.text)


def wrap(framing: str, text: str) -> str:
    match framing:
        case "no begin":
            return text.removeprefix("*** Begin Patch\n")
        case "no end":
            return text.removesuffix("*** End Patch\n")
        case "fence":
            return f"```\n{text}```"
        case "object":
            return json.dumps({"input": text})
        case "array":
            return json.dumps(["apply_patch", text])
        case "heredoc":
            return f"apply_patch <<'EOF'\n{text}EOF\n"
        case "blank":
            return f"\n{text}\n\n"
        case "indent":
            return "".join(f"  {line}\n" for line in text.split("\n")[:-1])
        case "crlf":
            return text.replace("\n", "\r\n")
        case _:
            return f"The patch:\n{text}"
