"""The grammar of a tool's text as GBNF: it derives the call as JSON, with the text inside a JSON string."""

from __future__ import annotations

from typing import Literal

import pytest

from forge_proxy.core.chat import ToolGrammar, ToolSpec
from forge_proxy.wire.backends.openai.gbnf import write_call_grammar
from tests.core.tool_grammars.grammars import APPLY_PATCH, SUMS

PLAIN = r"[\x20-\x21\x23-\x5B\x5D-\x7E\x80-\uD7FF\uE000-\U0010FFFF]"


def rules_of(definition: str, syntax: Literal["lark", "regex"] = "lark") -> dict[str, str] | None:
    """The right-hand sides by name, without the root."""
    written = write_call_grammar(ToolSpec("run", grammar=ToolGrammar(syntax, definition, argument="code")))
    if written is None:
        return None
    first, *others = written.split("\n")
    assert first == r'root ::= "{\x22name\x22: \x22run\x22, \x22arguments\x22: {\x22code\x22: \x22" start-0 "\x22}}"'
    return dict(line.split(" ::= ", 1) for line in others)


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("a b", '"a" " " "b"'),
        (r"[a-c]{2,4}\n", r'([a-c]){2,4} "\x5Cn"'),
        ('"', r'"\x5C\x22"'),
        (r"\\", r'"\x5C\x5C"'),
        (r"\t?", r'("\x5Ct")?'),
        (".*", rf'(({PLAIN} | "\x5Ct" | "\x5Cr" | "\x5C\x22" | "\x5C\x5C"))*'),
        (r"[^\n]+", rf'(({PLAIN} | "\x5Ct" | "\x5Cr" | "\x5C\x22" | "\x5C\x5C"))+'),
        (r"\d{3,}|é", r'(([0-9]){3,} | "\xE9")'),
        (r"(?i)[m-p]x", "[m-pM-P] [x-xX-X]"),
    ],
)
def test_a_regular_expression_becomes_one_rule(pattern: str, written: str) -> None:
    assert rules_of(pattern, "regex") == {"start-0": written}


def test_rules_and_terminals_keep_their_names() -> None:
    rules = rules_of('start: item ("," item)* [END]\nitem: /x/ | "a".."c"\nEND: "."\n%import common.LF')

    assert rules == {
        "start-0": 'item-1 ("," item-1)* (END-2)?',
        "item-1": '("x" | [a-c])',
        "END-2": '"."',
        "LF-3": "common-LF-4",
        "common-LF-4": r'"\x5Cn"',
    }


@pytest.mark.parametrize(
    "definition",
    [SUMS, 'start: start "a" | "b"', 'start: x start "a" | "b"\nx: "c"?', 'start: a\na: start | "x"', "start: /(?=a)/"],
)
def test_what_gbnf_cannot_express_is_not_encoded(definition: str) -> None:
    assert rules_of(definition) is None


def test_right_recursion_is_encoded() -> None:
    assert rules_of('start: "a" start | "b"') == {"start-0": '("a" start-0 | "b")'}


def test_the_grammar_of_patches_is_encoded() -> None:
    written = write_call_grammar(APPLY_PATCH)

    assert written is not None
    assert r'"*** Begin Patch" LF' in written
    assert write_call_grammar(ToolSpec("run")) is None
