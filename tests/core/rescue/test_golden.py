"""Output of each model family and the expected result: the files in `golden/`, all written for this project.

=== name of the case
--- said       the text as the model sent it
--- calls      a line for each call, and below it how it was parsed:
read_file {"path": "a"}
  json; mended commas, quotes; raw path; unnamed 1; id c1; cut off
--- text       the remaining text for the user; empty if omitted
--- thought    the same for the reasoning
--- broken     a call was begun that cannot be parsed; the text is not compared
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from forge_proxy.core.jsontypes import write
from forge_proxy.core.rescue import RecoveredCall, StreamingParser, rescue
from tests.folding import folded
from tests.scanned import gather


@dataclass(frozen=True)
class Golden:
    """One text, and what is to be made of it."""

    tools: tuple[str, ...]
    said: str
    calls: list[str]
    text: str
    thought: str
    broken: bool


def golden_cases() -> Iterator[object]:
    for path in sorted((Path(__file__).parent / "golden").glob("*.txt")):
        head, *cases = re.split("^=== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        tools = re.search("^tools: (.+)$", head, flags=re.MULTILINE)
        assert tools, path
        last = len(cases) - 1
        for place, case in enumerate(cases):
            title, _, rest = case.partition("\n")
            # The line before the next case belongs to neither.
            parts = _parts(rest if place == last else rest.removesuffix("\n"))
            assert parts.keys() <= {"said", "calls", "text", "thought", "broken"}, (path, title)
            calls = re.findall(r"^\S.*\n  .*$", parts.get("calls", ""), flags=re.MULTILINE)
            wanted = Golden(
                tuple(tools[1].split(", ")),
                parts["said"],
                [_in_one_line(call) for call in calls],
                parts.get("text", ""),
                parts.get("thought", ""),
                "broken" in parts,
            )
            yield pytest.param(wanted, id=f"{path.stem}: {title}")


def _parts(case: str) -> dict[str, str]:
    pieces = re.split(r"^--- (\w+)\n", case, flags=re.MULTILINE)
    return {name: body.removesuffix("\n") for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}


def _in_one_line(call: str) -> str:
    """A call with its arguments as we print them."""
    said, how = call.split("\n")
    tool, _, arguments = said.partition(" ")
    return f"{tool} {write(json.loads(arguments))} {how.strip()}"


def shown(found: RecoveredCall) -> str:
    """A call as the files have it, in one line."""
    notes = [found.form]
    notes += ["mended " + ", ".join(found.repairs)] if found.repairs else []
    notes += ["raw " + ", ".join(sorted(found.untyped))] if found.untyped else []
    notes += [f"unnamed {found.positional}"] if found.positional else []
    notes += [f"id {found.call.id}"] if found.call.id else []
    notes += ["cut off"] if found.open else []
    return f"{found.call.tool} {write(found.call.args())} {'; '.join(notes)}"


each_case = pytest.mark.parametrize("golden", list(golden_cases()))


@folded
@each_case
def test_golden_cases_are_parsed_as_expected(golden: Golden) -> None:
    rescued = rescue(golden.said, golden.tools)

    assert [shown(found) for found in rescued.calls] == golden.calls
    assert (rescued.reasoning, rescued.broken) == (golden.thought, golden.broken)
    if not golden.broken:
        assert rescued.text == golden.text


@folded
@each_case
@pytest.mark.parametrize("length", [1, 7, 10_000])
def test_streamed_golden_cases_are_a_prefix_of_the_whole_result(golden: Golden, length: int) -> None:
    scan = StreamingParser(golden.tools)

    pieces = [
        piece
        for at in range(0, len(golden.said), length)
        for piece in scan.feed(golden.said[at : at + length])
    ]  # fmt: skip
    pieces += scan.decide_postponed()

    assert rescue(golden.said, golden.tools).text.startswith(gather(pieces).text)
    whole = [call for call in golden.calls if not call.endswith("cut off")]
    assert [shown(found) for found in scan.calls] == whole
