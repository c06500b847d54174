"""The command: reads its inputs, analyzes the text and prints the result."""

from __future__ import annotations

import sys
from pathlib import Path

from forge_proxy.cli.rescue import Finish
from forge_proxy.cli.rescue.findings import analyze
from forge_proxy.cli.rescue.inputs import read_text, read_turn
from forge_proxy.cli.rescue.json_output import to_json
from forge_proxy.cli.rescue.text_output import render_text


def run_rescue(file: Path | None, tools: Path | None, finish: Finish, *, json: bool) -> bool:
    """Print the analysis. Returns whether every call in the text can be parsed and is valid. Raises `InputError`."""
    turn = read_turn(tools)
    findings = analyze(turn, read_text(file), finish)
    sys.setrecursionlimit(4 * sys.getrecursionlimit())  # print whatever could be parsed, however deeply it is nested
    # The text may contain characters that this terminal cannot show.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    print(to_json(findings) if json else render_text(findings))
    return findings.is_valid
