"""What properties are drawn from, for every test that has one: texts that look like markup, JSON values, cuts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st

from forge_proxy.core.jsontypes import Json

Cuttable = TypeVar("Cuttable", str, bytes)
Case = TypeVar("Case")


_USUAL = 0.5
SCALE = float(os.environ.get("FORGE_TEST_EXAMPLES", _USUAL))
"""How many times its number of examples each property is tried on: less in `make quick`, more in `make test-all`."""


def examples(count: int) -> settings:
    """Return settings for `count` examples times `SCALE`, without a deadline, that print how to repeat a failure."""
    return settings(max_examples=max(5, round(count * SCALE)), deadline=None, print_blob=True)


def sample(cases: Sequence[Case], one_in: float) -> Sequence[Case]:
    """Return one case in this many of a long matrix, the first and the last among them; every case in `make test-all`.

    With 1, only `make quick` samples. If the number has no divisor in common with the lengths of the matrix, each value
    of the matrix is in the sample.
    """
    if SCALE > 1:
        return cases
    step = max(1, round(one_in if SCALE >= _USUAL else one_in / SCALE))
    chosen = list(cases[::step])
    return chosen if not cases or (len(cases) - 1) % step == 0 else [*chosen, cases[-1]]


# What models, and the files they write, put between ordinary words.
MARKUP = (
    "<tool_call>",
    "</tool_call>",
    "<function=get_weather>",
    "<function=",
    "</function>",
    "<parameter=city>",
    "</parameter>",
    "[TOOL_CALLS]",
    "get_weather",
    "[ARGS]",
    '{"name": "get_weather", "arguments": {}}',
    '"name":',
    "```json\n",
    "\n```\n",
    "`",
    "{",
    "}",
    "[",
    "]",
    '"',
    "\\",
    "\\u00e9",
    "\n",
    "  ",
    "<|im_end|>",
    "</s>",
    "é",
    "😀",
)
TEXTS = st.text(max_size=8) | st.lists(st.sampled_from(MARKUP) | st.text(max_size=2), max_size=5).map("".join)
"""Any text, more often one that looks like markup."""

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)


def _containers(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)


VALUES: st.SearchStrategy[Json] = st.recursive(_SCALARS, _containers, max_leaves=6)
"""Any JSON value, long integers and texts that look like markup included."""

OBJECTS: st.SearchStrategy[dict[str, Json]] = st.dictionaries(TEXTS, VALUES, max_size=3)

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=12)
"""The lengths of pieces: see `cut`."""


def cut(whole: Cuttable, lengths: Sequence[int]) -> list[Cuttable]:
    """Return the text or the bytes in pieces of these lengths, which are repeated as often as needed."""
    pieces: list[Cuttable] = []
    at = 0
    while at < len(whole):
        length = lengths[len(pieces) % len(lengths)]
        pieces.append(whole[at : at + length])
        at += length
    return pieces
