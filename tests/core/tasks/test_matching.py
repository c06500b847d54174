"""The four levels on which the text of an edit is found."""

from __future__ import annotations

from textwrap import dedent

import pytest

from forge_proxy.core.tasks.edits.matching import Match, NoMatch, find_match

FILE = dedent('''\
    class Cart:
        """A cart."""

        def total(self):
            result = 0
            for item in self.items:
                result += item.price * item.count
            return result

        def clear(self):
            self.items = []
    ''')


def apply(text: str, search: str, replace: str) -> tuple[str, str]:
    """The text after an edit, and the level on which it was found."""
    found = find_match(text, search, replace)
    assert isinstance(found, Match), found
    return text[: found.start] + found.replacement + text[found.end :], found.level


def reject(text: str, search: str) -> NoMatch:
    """Why an edit is not applied."""
    found = find_match(text, search, "new")
    assert isinstance(found, NoMatch), found
    return found


def test_s_edits_exact_text_is_replaced_literally() -> None:
    after, level = apply(FILE, "item.price * item.count", "item.cost")

    assert (after, level) == (FILE.replace("item.price * item.count", "item.cost"), "exact")


def test_s_edits_a_block_that_quotes_a_part_of_a_line_replaces_nothing_else() -> None:
    text = "export function total(items: Item[]): number {\n"

    after, level = apply(text, "total(items: Item[])\n", "total(items: any)\n")

    assert (after, level) == (text.replace("Item[]", "any"), "exact")


def test_s_edits_a_part_of_a_line_has_to_be_unique_and_to_consist_of_whole_words() -> None:
    assert reject("f(a); g(a);\n", "(a)\n").reason == "ambiguous"
    assert apply("limit = 10\n", "limit = 1\n", "limit = 2\n") == ("limit = 2\n", "fuzzy")


def test_s_edits_trailing_whitespace_is_ignored_on_both_sides() -> None:
    text = "a = 1  \nb = 2\n"

    assert apply(text, "a = 1\nb = 2 \t\n", "c = 3\n") == ("c = 3\n", "trailing_whitespace")


def test_s_edits_a_dedented_search_is_found_and_its_replacement_indented() -> None:
    search = "for item in self.items:\n    result += item.price * item.count\n"
    replace = "for item in self.items:\n    if item.count:\n        result += item.cost\n"

    after, level = apply(FILE, search, replace)

    assert level == "indentation"
    assert "        for item in self.items:\n            if item.count:\n                result += item.cost\n" in after
    assert after.count("\n") == FILE.count("\n") + 1


def test_s_edits_spaces_match_tabs_and_the_replacement_gets_tabs() -> None:
    text = "def f():\n\tif x:\n\t\treturn 1\n"

    after, level = apply(text, "    if x:\n        return 1\n", "    if y:\n        return 2\n    return 3\n")

    assert (after, level) == ("def f():\n\tif y:\n\t\treturn 2\n\treturn 3\n", "indentation")


def test_s_edits_two_spaces_match_four() -> None:
    text = "def f():\n    if x:\n        return 1\n"

    after, level = apply(text, "def f():\n  if x:\n    return 1\n", "def f():\n  if y:\n    return 2\n")

    assert (after, level) == ("def f():\n    if y:\n        return 2\n", "indentation")


def test_s_edits_a_similar_text_is_found_fuzzily_and_reindented() -> None:
    search = "for item in items:\n    result += item.price * item.amount\n"

    after, level = apply(FILE, search, "for item in self.items:\n    result += item.cost\n")

    assert level == "fuzzy"
    assert "        for item in self.items:\n            result += item.cost\n        return result\n" in after


@pytest.mark.parametrize(
    ("text", "search", "level", "lines"),
    [
        ("a\nb\na\n", "a", "exact", (1, 3)),
        ("a \nb\na  \nb\n", "a\nb\n", "trailing_whitespace", (1, 3)),
        ("  x()\n  y()\n    x()\n    y()\n", "x()\ny()\n", "indentation", (1, 3)),
    ],
)
def test_s_edits_several_places_are_an_error_on_each_level(
    text: str, search: str, level: str, lines: tuple[int, ...]
) -> None:
    found = reject(text, search)

    assert (found.reason, found.level, found.lines) == ("ambiguous", level, lines)
    assert "lines 1, 3" in str(found)


def test_s_edits_two_similar_places_are_an_error_of_the_fuzzy_level() -> None:
    text = "total = price * count + 1\n\n\ntotal = price * count + 2\n"

    found = reject(text, "total = price * count + 3\n")

    assert (found.reason, found.level, found.lines) == ("ambiguous", "fuzzy", (1, 4))


def test_s_edits_a_place_that_is_clearly_nearer_wins() -> None:
    text = "total = price * count + 1\n\n\nsum = a - b\n"

    assert apply(text, "total = price * counts + 1\n", "new\n") == ("new\n\n\nsum = a - b\n", "fuzzy")


def test_s_edits_what_is_nowhere_is_reported_with_the_nearest_lines() -> None:
    found = reject(FILE, "def checkout(self, payment):\n    payment.charge(42)\n")

    assert found.reason == "unmatched"
    assert found.nearest is not None
    assert found.nearest.similarity < 0.6
    assert f"line {found.nearest.line}" in str(found)


def test_s_edits_an_empty_replacement_removes_the_lines() -> None:
    after, _ = apply(FILE, "def clear(self):\n    self.items = []\n", "")

    assert after == FILE[: FILE.index("    def clear")]


def test_a_replacement_without_its_line_break_does_not_join_the_next_line() -> None:
    assert apply("a\nb\n", "a\n", "c") == ("c\nb\n", "exact")


def test_overlapping_places_are_several() -> None:
    assert reject("aaa", "aa").reason == "ambiguous"
