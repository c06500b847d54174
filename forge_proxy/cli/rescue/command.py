"""The command: reads its inputs, analyzes the text and prints the result."""

from __future__ import annotations

import sys
from dataclasses import replace
from json import dumps
from pathlib import Path

from forge_proxy.cli.rescue import Finish
from forge_proxy.cli.rescue.findings import analyze
from forge_proxy.cli.rescue.inputs import read_text, read_turn
from forge_proxy.cli.rescue.json_output import to_json
from forge_proxy.cli.rescue.template import learn_template_file
from forge_proxy.cli.rescue.text_output import render_text
from forge_proxy.core.rescue.templates import describe_template


def run_rescue(
    file: Path | None, tools: Path | None, finish: Finish, template: Path | None = None, *, json: bool
) -> bool:
    """Print the analysis. Returns whether every call in the text can be parsed and is valid. Raises `InputError`.

    With a template, its form is printed too; without a text and tools, only that, and the result is whether it was
    learned.
    """
    learned = learn_template_file(template) if template else None
    if learned and file is None and tools is None:
        print(dumps(learned.as_json(), indent=2) if json else f"template    {describe_template(learned)}")
        return learned.form is not None
    turn = read_turn(tools)
    if learned:
        print(f"forge-proxy: template: {describe_template(learned)}", file=sys.stderr)
        turn = replace(turn, form=learned.form)
    findings = analyze(turn, read_text(file), finish)
    sys.setrecursionlimit(4 * sys.getrecursionlimit())  # print whatever could be parsed, however deeply it is nested
    # The text may contain characters that this terminal cannot show.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    print(to_json(findings) if json else render_text(findings))
    return findings.is_valid
