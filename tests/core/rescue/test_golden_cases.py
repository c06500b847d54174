"""The files of golden cases: whatever a model wrote, its case is read as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.rescue.golden_cases import (
    GoldenCase,
    GoldenFile,
    InvalidGoldenFile,
    is_golden_file,
    read_golden_file,
    write_golden_file,
)

NAMES = ["read_file", "a, b", "with space", '"quoted"', "#"]
PIECES = [
    "=== title\n", "--- said\n", "\\--- calls\n", "--- said", "\n", "\r\n", "\r", " ", "text", "é\u2028",
    '<tool_call>{"name": "read_file", "arguments": {"path": "a"}}</tool_call>', "<tool_call>{'name': 'with space'}",
    '[TOOL_CALLS]a, b{"x": "\\n=== y"}', "<think>", "</think>", "<tool_call>", "tools: x\n", "\ud800", "\0",
]  # fmt: skip


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), min_size=1, max_size=3))
def test_cases_are_read_as_they_were_written(texts: list[str]) -> None:
    cases = tuple(GoldenCase.of(f"case {number}\n", text, NAMES) for number, text in enumerate(texts))
    request: JsonObject = {"tools": [{"name": "x\n=== y"}]}
    written = write_golden_file(["a\n=== comment"], GoldenFile(cases, request))

    assert is_golden_file(written)
    assert read_golden_file(written) == GoldenFile(cases, request)
    for case in cases:
        assert GoldenCase.of(case.title, case.said, case.tools) == case


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("=== a\n--- said\nx\n", "a line such as `tools:"),
        ("tools: a\n\n=== case\n--- sayd\nx\n", "case 'case': no part is called sayd; expected said, calls"),
        ("tools: a\n\n=== case\n--- text\nx\n", "the part `--- said` is missing"),
        ("tools: a\n\n=== case\n--- said\nx\n--- calls\na {x}\n  json\n", "case 'case': expected a call"),
        ("tools: [1]\n\n=== case\n--- said\nx\n", "tools: expected names"),
        ("tools: a\nrequest: x\n\n=== case\n--- said\nx\n", "request: expected a JSON object"),
    ],
)
def test_a_wrong_file_is_described(text: str, why: str) -> None:
    with pytest.raises(InvalidGoldenFile, match=why):
        read_golden_file(text)


@pytest.mark.parametrize("text", ["", "tools: a", "=== a", "I have tools: a\n=== b", "x\n=== a\ntools: b"])
def test_other_texts_are_no_golden_files(text: str) -> None:
    assert not is_golden_file(text)
