"""JSON with comments: parsed as editors do, and edited in place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.cli.connect.jsonc import edit_jsonc, read_jsonc

LEAVES = st.none() | st.booleans() | st.integers() | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=4)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("// nothing here\n", {}),
        ("\ufeff{}", {}),
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2,], /* x */ "b": "// no comment"}', {"a": [1, 2], "b": "// no comment"}),
        ('/* a */ { // b\n "a" /* c */ : /* d */ null } // e', {"a": None}),
    ],
)
def test_comments_and_trailing_commas_are_parsed(text: str, value: object) -> None:
    assert read_jsonc(text) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "line 1, column 2: expected a key in double quotes"),
        ('{"a": 1\n "b": 2}', "line 2, column 2: expected a comma or }"),
        ('{"a": nul}', "line 1, column 7: expected a JSON value"),
        ("{} x", "expected the end of the file"),
        ("{'a': 1}", "expected a key in double quotes"),
        ('{"a": /* never closed', "expected a JSON value"),
        ("[" * 100_000, "nested deeper"),
        ('{"a": NaN}', "expected a JSON value"),
    ],
)
def test_syntax_errors_have_a_position(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the message is what is looked at
        read_jsonc(text)

    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("old", "wanted", "new"),
    [
        ("{}", {"a": 1}, '{\n  "a": 1\n}'),
        ('{"b": 2}', {"b": 2, "a": {"c": 1}}, '{"b": 2, "a": {"c": 1}}'),
        ('{\n\t"b": 2 // two\n}', {"b": 2, "a": {"c": 1}}, '{\n\t"b": 2, // two\n\t"a": {\n\t\t"c": 1\n\t}\n}'),
        ('{\n    "b": 2, // two\n}', {"b": 2, "a": 1}, '{\n    "b": 2, // two\n    "a": 1,\n}'),
        ('{\r\n  "b": 2\r\n}\r\n', {"b": 2, "a": 1}, '{\r\n  "b": 2,\r\n  "a": 1\r\n}\r\n'),
        ('{\n  "b": 2 /* x */ ,\n  // end\n}', {"b": 3, "a": 1}, '{\n  "b": 3 /* x */ ,\n  "a": 1,\n  // end\n}'),
        ('{"a": {"b": [1] /* one */}}', {"a": {"b": [2]}}, '{"a": {"b": [\n  2\n] /* one */}}'),
        ("// mine\n", {"a": 1}, '// mine\n{\n  "a": 1\n}\n'),
        ('{"a": 1, "a": 2}', {"a": 3}, '{"a": 1, "a": 3}'),
    ],
)
def test_an_edit_keeps_the_rest_of_the_text(old: str, wanted: dict[str, Any], new: str) -> None:
    assert edit_jsonc(old, wanted) == new


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """All keys of both, inside objects as well: no key of a file is ever removed."""
    both = {**old, **new}
    inner = {key for key in both if isinstance(old.get(key), dict) and isinstance(new.get(key), dict)}
    return {key: merged(old[key], new[key]) if key in inner else value for key, value in both.items()}


@given(OBJECTS, OBJECTS, st.sampled_from([None, 2, "\t"]))
def test_edited_text_of_any_layout_has_the_values(
    old: dict[str, Any], new: dict[str, Any], indent: int | str | None
) -> None:
    wanted = merged(old, new)

    assert read_jsonc(edit_jsonc(json.dumps(old, indent=indent), wanted)) == wanted
