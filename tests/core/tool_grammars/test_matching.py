"""Texts are matched by the grammar itself, in bounded time; the library `lark` is the reference for what matches."""

from __future__ import annotations

import re
from collections.abc import Callable

import lark
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.chat import ToolGrammar
from forge_proxy.core.tool_grammars import finite_matcher
from forge_proxy.core.tool_grammars.compiled import compile_grammar, find_grammar_flaw
from forge_proxy.core.tool_grammars.matching import TooCostly
from tests.core.tool_grammars.grammars import LISTS, PATCH, PATCH_GRAMMAR, SUMS
from tests.properties import examples

ADD = "*** Begin Patch\n*** Add File: a.py\n+x = 1\n+\n*** End Patch"
SMALL = {
    "sums": (SUMS, "1 +2*(3)- "),
    "lists": (LISTS, "[],ab "),
    "ambiguous": ('start: start start | "a" | "ab" | "b"', "ab"),
    "left recursion": ('start: start "," item | item\nitem: /ab|a/', "ab,"),
    "right recursion": ('start: "a" start | "b"', "ab"),
    "empty rules": ('start: x x "a"? x\nx: | "b" x', "ab"),
    "regular expressions": (r"start: /[^\W\d]{2,3}|\x5f+/ | /(?:a|b)?c/i -> other", "aBc_+1é"),
    "ranges and counts": ('start: "a".."c"~2..3 ["x"] ("y" | "z"i)*', "abcdxyzZ"),
    "priorities and prefixes": ('?start.2: _a | B\n!_a: "a"+\nB.1: "b" C?\nC: "c"', "abc"),
    "imports": (
        "%import common (INT, CNAME)\n%import common.WS -> SPACE\n%ignore SPACE\nstart: (CNAME INT)+",
        "a_1 \n",
    ),
    "escapes": (r'start: "\"\\\n" /\// /\./ "\x41"', '"\\\n/.A'),
    "comments": ('# one\nstart: "a" // two\n  | "b"\n\n  // three\n  | "c"\n', "abc"),
}  # fmt: skip


def matches(definition: str, text: str) -> bool:
    compiled = compile_grammar(ToolGrammar("lark", definition))
    assert compiled is not None, find_grammar_flaw(ToolGrammar("lark", definition))
    return compiled.matcher.find_mismatch(text) is None


def lark_matcher(definition: str) -> Callable[[str], bool]:
    reference = lark.Lark(definition, parser="earley", lexer="dynamic_complete")

    def parses(text: str) -> bool:
        try:
            reference.parse(text)
        except lark.exceptions.LarkError:
            return False
        return True

    return parses


@pytest.mark.parametrize("name", SMALL)
def test_the_same_texts_match_as_with_lark(name: str) -> None:
    definition, alphabet = SMALL[name]
    parses = lark_matcher(definition)

    @examples(60)
    @given(st.text(st.sampled_from(alphabet), max_size=7))
    def compare(text: str) -> None:
        assert matches(definition, text) is parses(text)

    compare()


def test_texts_of_each_compared_grammar_match() -> None:
    """The comparison with lark would show nothing if no text ever matched."""
    texts = {
        "sums": "1 + 2*(-3)", "lists": "[a,[b,],[]]", "ambiguous": "abab", "left recursion": "a,ab",
        "right recursion": "aab", "empty rules": "bab", "regular expressions": "__",
        "ranges and counts": "abcxyZ", "priorities and prefixes": "bc", "imports": "a 1\nb_2 3",
        "escapes": '"\\\n/.A', "comments": "c",
    }  # fmt: skip
    texts["lists"] = "[a,[b,c],[]]"

    assert {name for name, text in texts.items() if matches(SMALL[name][0], text)} == SMALL.keys()


def test_lark_itself_cannot_load_the_grammar_of_patches() -> None:
    """The reason for a matcher of our own: see docs/decisions/0035-tool-grammars.md."""
    with pytest.raises(lark.exceptions.LarkError):
        lark.Lark(PATCH, parser="earley")


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("", 0, ('"*** Begin Patch"',)),
        ("*** Begin Patch\nfoo\n", 16, ('"*** Add File: "', '"*** Delete File: "', '"*** Update File: "')),
        ("*** Begin Patch\n*** Updat File: a", 25, ('"*** Update File: "',)),
        ("*** Begin Patch\n*** Add File: a\nx\n", 32, ('"+"',)),
        ("*** Begin Patch\n*** Add File: \n", 30, ("path",)),
        ("*** Begin Patch\n*** Delete File: a", 34, ("path", "end of line")),
        (ADD + "\n\n", len(ADD) + 1, ("end of text",)),
    ],
)
def test_a_mismatch_reports_where_the_text_leaves_the_grammar(text: str, at: int, expected: tuple[str, ...]) -> None:
    compiled = compile_grammar(PATCH_GRAMMAR)
    assert compiled is not None

    found = compiled.matcher.find_mismatch(text)

    assert found is not None
    assert (found.at, found.expected) == (at, expected)


def test_a_recursive_grammar_reports_the_same() -> None:
    compiled = compile_grammar(ToolGrammar("lark", SUMS))
    assert compiled is not None

    found = compiled.matcher.find_mismatch("(1 + ) 2")

    assert found is not None
    assert found.at == 5
    assert found.expected[-3:] == ("NUMBER", '"("', '"-"')


@pytest.mark.parametrize(
    "pattern", [r"\d{3}-[a-f]+", r"^(?:yes|no)\s?$", r"\Aa\.b\z", r"(?i)select .+", r"s.*?t", r"x\$", "[]a^-]+"]
)
@given(text=st.text(st.sampled_from("0123-abfyesno. \nSELECTselect$x]^"), max_size=9))
@examples(60)
def test_a_regular_expression_matches_the_whole_text(pattern: str, text: str) -> None:
    compiled = compile_grammar(ToolGrammar("regex", pattern))
    assert compiled is not None
    body = pattern.removeprefix("^").removeprefix("\\A").removesuffix("\\z")
    body = body if body.endswith("\\$") else body.removesuffix("$")

    assert (compiled.matcher.find_mismatch(text) is None) is (re.fullmatch(body, text) is not None)


@pytest.mark.parametrize(
    ("definition", "flaw"),
    [
        ('start: "' + "a" * 1_000_000 + '"', "a grammar of more than 50000 characters"),
        ("start: (((\"a\"~1000)~1000)~1000)", "a grammar that is too large"),
        ("start: a0\n" + "".join(f"a{n}: a{n + 1} a{n + 1}\n" for n in range(60)) + 'a60: "x"',
            "a grammar that is too large"),
        ("start: " + "(" * 20_000 + '"a"' + ")" * 20_000, "groups that are nested too deeply"),
        ("start: /" + "(" * 20_000 + "a" + ")" * 20_000 + "/", "a regular expression that is nested too deeply"),
        ("start: /" + "\\" * 40_000, "a string or regular expression that is not closed"),
        ("".join(f'r{n}: "x"\n' for n in range(501)) + "start: r0", "a grammar with too many rules"),
        ("start: a0\n" + "".join(f"a{n}: a{n + 1}\n" for n in range(400)) + 'a400: "x"',
            "rules that are nested too deeply"),
        (r"start: /a(?=b)/", "lookaround or flags inside a regular expression"),
        (r"start: /(a)\1/", r"the escape \1"),
        ("%import .secrets (KEY)\nstart: KEY", "a definition that cannot be read"),
        ("%import os.path\nstart: PATH", "an import from another library than common"),
        ('%declare X\nstart: X', "a directive other than %import and %ignore"),
        ('start: pair{"a"}\npair{x}: x x', "a template, or a rule in a terminal"),
        ('other: "a"', "a grammar without the rule start"),
        ("start: missing", "a name that is not defined"),
        ("", "a grammar without the rule start"),
        ("start: /[/", "a regular expression that ends too early"),
        ('start: "a" )', "a definition that cannot be read"),
    ],
)  # fmt: skip
def test_a_grammar_that_cannot_be_used_is_refused_with_the_reason(definition: str, flaw: str) -> None:
    assert find_grammar_flaw(ToolGrammar("lark", definition)) == flaw


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ('start: start start | "a" |', "a" * 3_000),
        ('start: start "a" | "a"', "a" * 1_000_000),
        ("start: /(a|b)*a(a|b){900}/", "a" * 100_000),
    ],
)
def test_a_match_that_takes_too_many_steps_is_stopped(definition: str, text: str) -> None:
    compiled = compile_grammar(ToolGrammar("lark", definition))
    assert compiled is not None

    with pytest.raises(TooCostly):
        compiled.matcher.find_mismatch(text)


def test_a_regular_expression_that_explodes_elsewhere_is_matched_in_linear_time() -> None:
    assert not matches("start: /(a+)+b/", "a" * 100_000)
    assert matches("start: /(a+)+b/", "a" * 100_000 + "b")


def test_a_patch_of_a_megabyte_is_matched() -> None:
    text = ADD.replace("+x = 1\n", "+x = 1\n" * 140_000)

    assert matches(PATCH, text)
    assert not matches(PATCH, text.replace("*** End Patch", "*** End"))


def test_a_cache_that_is_full_changes_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finite_matcher, "_MAX_TRANSITIONS", 500)
    lines = "".join(f"+{chr(0x4E00 + number)}\n" for number in range(2_000))

    assert matches(PATCH, ADD.replace("+x = 1\n", lines))
    assert not matches(PATCH, ADD.replace("+x = 1\n", lines + "y\n"))
