"""Output of each model family and the expected result: the files in `golden/`, all written for this project.

`forge_proxy/core/rescue/golden_cases.py` describes their format.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forge_proxy.core.rescue import StreamingParser, rescue
from forge_proxy.core.rescue.golden_cases import GoldenCase, describe_recovered, read_golden_file
from tests.folding import folded
from tests.scanned import gather


def golden_cases() -> Iterator[object]:
    for path in sorted((Path(__file__).parent / "golden").glob("*.txt")):
        for case in read_golden_file(path.read_text(encoding="utf-8")).cases:
            yield pytest.param(case, id=f"{path.stem}: {case.title}")


each_case = pytest.mark.parametrize("golden", list(golden_cases()))


@folded
@each_case
def test_golden_cases_are_parsed_as_expected(golden: GoldenCase) -> None:
    assert GoldenCase.of(golden.title, golden.said, golden.tools) == golden


@folded
@each_case
@pytest.mark.parametrize("length", [1, 7, 10_000])
def test_streamed_golden_cases_are_a_prefix_of_the_whole_result(golden: GoldenCase, length: int) -> None:
    scan = StreamingParser(golden.tools)

    pieces = [
        piece
        for at in range(0, len(golden.said), length)
        for piece in scan.feed(golden.said[at : at + length])
    ]  # fmt: skip
    pieces += scan.decide_postponed()

    assert rescue(golden.said, golden.tools).text.startswith(gather(pieces).text)
    whole = [call for call in golden.calls if not call.endswith("cut off")]
    assert [describe_recovered(found) for found in scan.calls] == whole
