"""The command: reads its inputs, analyzes the text and prints the result."""

from __future__ import annotations

import sys
from dataclasses import replace
from json import dumps
from pathlib import Path

from forge_proxy.cli.rescue import Finish
from forge_proxy.cli.rescue.findings import analyze
from forge_proxy.cli.rescue.golden import is_unchanged, read_golden, turn_of_golden
from forge_proxy.cli.rescue.inputs import read_text, read_turn
from forge_proxy.cli.rescue.json_output import to_fields, to_json
from forge_proxy.cli.rescue.template import learn_template_file
from forge_proxy.cli.rescue.text_output import render_text
from forge_proxy.core.guardrails import Turn
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.rescue.golden_cases import GoldenFile, is_golden_file
from forge_proxy.core.rescue.templates import describe_template


def run_rescue(
    file: Path | None, tools: Path | None, finish: Finish, template: Path | None = None, *, json: bool
) -> bool:
    """Print the analysis. Returns whether every call in the text can be parsed and is valid. Raises `InputError`.

    A file of golden cases, such as an exported request, has its tools in itself; each of its cases is analyzed.
    With a template, its form is printed too; without a text and tools, only that, and the result is whether it was
    learned.
    """
    learned = learn_template_file(template) if template else None
    if learned and file is None and tools is None:
        print(dumps(learned.as_json(), indent=2) if json else f"template    {describe_template(learned)}")
        return learned.form is not None
    text = read_text(file) if tools is None and file is not None else ""
    golden = read_golden(text, file) if file is not None and is_golden_file(text) else None
    turn = turn_of_golden(golden, file) if golden and file else read_turn(tools)
    if learned:
        print(f"forge-proxy: template: {describe_template(learned)}", file=sys.stderr)
        turn = replace(turn, form=learned.form)
    sys.setrecursionlimit(4 * sys.getrecursionlimit())  # print whatever could be parsed, however deeply it is nested
    # The text may contain characters that this terminal cannot show.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    if golden:
        return _print_cases(turn, golden, finish, json=json)
    findings = analyze(turn, read_text(file), finish)
    print(to_json(findings) if json else render_text(findings))
    return findings.is_valid


def _print_cases(turn: Turn, golden: GoldenFile, finish: Finish, *, json: bool) -> bool:
    """Print the analysis of each case. Returns whether all calls are valid and all cases are parsed as recorded."""
    cases = [(case, analyze(turn, case.said, finish), is_unchanged(case)) for case in golden.cases]
    if json:
        printed: Json = [
            {"case": case.title, "as_recorded": unchanged, **to_fields(found)} for case, found, unchanged in cases
        ]
        print(dumps(printed, indent=2))
    else:
        for case, found, unchanged in cases:
            print(f"=== {case.title}\n{render_text(found)}")
            print(f"recorded    {'parsed as recorded' if unchanged else 'parsed differently from what is recorded'}\n")
    return all(found.is_valid and unchanged for _, found, unchanged in cases)
