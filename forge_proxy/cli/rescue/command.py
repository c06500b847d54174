"""The command itself: reads its inputs, looks, prints."""

from __future__ import annotations

import sys
from pathlib import Path

from forge_proxy.cli.rescue import Finish
from forge_proxy.cli.rescue.as_json import as_json
from forge_proxy.cli.rescue.findings import find
from forge_proxy.cli.rescue.inputs import read_text, read_turn
from forge_proxy.cli.rescue.show import show


def run_rescue(file: Path | None, tools: Path | None, finish: Finish, *, json: bool) -> bool:
    """Print what was found; whether every call that was begun can be read and is valid. Raises `InputError`."""
    turn = read_turn(tools)
    findings = find(turn, read_text(file), finish)
    sys.setrecursionlimit(4 * sys.getrecursionlimit())  # what could be read is printed, however deeply it nests
    # What a model wrote may hold characters that this terminal cannot show.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    print(as_json(findings) if json else show(findings))
    return findings.good
