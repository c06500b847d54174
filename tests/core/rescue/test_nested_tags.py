"""Values written as child tags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.jsontypes import Json
from forge_proxy.core.rescue.readers.nested_tags import read_children
from tests.properties import TEXTS, examples

MINIMAX = "]<]minimax[>["
TAGS = st.sampled_from(["<a>", "</a>", "<b>", "</b>", MINIMAX, " ", "x"])
NAMES = st.text("abc_:.-", min_size=1, max_size=3)
LEAVES = st.text("xyz \n<&]", max_size=5)
TREES = st.recursive(LEAVES, lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3), max_leaves=6)


def read_tree(text: str) -> Json | None:
    """Child tags as an object of texts and such objects, a repeated tag as a list; None for what is no such tree."""
    children = read_children(text)
    if children is None:
        return None
    grouped: dict[str, list[Json]] = {}
    for name, content in children:
        inner = read_tree(content)
        grouped.setdefault(name, []).append(content if inner is None else inner)
    return {name: values[0] if len(values) == 1 else values for name, values in grouped.items()}


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("<a>x</a>", {"a": "x"}),
        (" <a> x\n</a>\n<b></b> ", {"a": " x\n", "b": ""}),
        ("<a>x</a><a>y</a>", {"a": ["x", "y"]}),
        ("<a><b>x</b><c>y</c></a>", {"a": {"b": "x", "c": "y"}}),
        ("<a><a>x</a></a>", {"a": {"a": "x"}}),
        ("<a>x<b>y</b></a>", {"a": "x<b>y</b>"}),
        ("<a>Vec<String></a>", {"a": "Vec<String>"}),
        ("<a>1 < 2</a>", {"a": "1 < 2"}),
        (f"{MINIMAX}<a>x{MINIMAX}</a>{MINIMAX}<a>{MINIMAX}<b>y</b></a>", {"a": ["x", {"b": "y"}]}),
    ],
)
def test_child_tags_become_members_and_repeated_ones_become_lists(text: str, tree: Json) -> None:
    assert read_tree(text) == tree


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x",
        "<a>",
        "</a>",
        "<a>x",
        "x<a></a>",
        "<a></a>x",
        "<a></b>",
        "</a><a>",
        "<a><a></a>",
        "<a b='c'></a>",
        "<a/>",
    ],
)
def test_text_beside_child_tags_is_not_a_tree(text: str) -> None:
    assert read_tree(text) is None
    assert read_children(text) is None


def test_children_are_returned_in_order_with_their_content() -> None:
    assert read_children("<b> <c>x</c></b><a></a><b>y</b>") == [("b", " <c>x</c>"), ("a", ""), ("b", "y")]


def written(tree: str | dict[str, Json] | Json) -> str:
    return "".join(f"<{k}>{written(v)}</{k}>" for k, v in tree.items()) if isinstance(tree, dict) else str(tree)


@examples(200)
@given(tree=TREES)
def test_any_written_tree_is_read_back(tree: Json) -> None:
    assert read_tree(written(tree)) == (tree if isinstance(tree, dict) else None)


@examples(300)
@given(text=TEXTS | st.lists(TAGS, max_size=12).map("".join))
def test_no_text_raises_an_error(text: str) -> None:
    children = read_children(text)

    assert children is None or all(f"<{name}" in text and content in text for name, content in children)


@pytest.mark.parametrize(
    "text", ["<a>" * 30_000, "<a></a>" * 20_000 + "x", "<" * 100_000, "<a" * 50_000, MINIMAX * 10_000]
)
def test_hostile_text_is_not_a_tree(text: str) -> None:
    assert read_children(text) is None
