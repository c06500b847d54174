"""Reads files of golden cases for `forge-proxy rescue`: those of the tests, and exported requests."""

from __future__ import annotations

from pathlib import Path

from forge_proxy.cli.rescue import InputError
from forge_proxy.cli.rescue.inputs import open_rescue_turn
from forge_proxy.core.guardrails import Turn
from forge_proxy.core.guardrails.respond import respond_tool
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.rescue.golden_cases import GoldenCase, GoldenFile, InvalidGoldenFile, read_golden_file


def read_golden(text: str, file: Path) -> GoldenFile:
    """Read the cases of a file. Raises `InputError`."""
    try:
        return read_golden_file(text)
    except InvalidGoldenFile as error:
        raise InputError(f"{file}: {error}") from error


def turn_of_golden(golden: GoldenFile, file: Path) -> Turn:
    """Open the turn of the request in the file, or of one that offers its tools with any arguments.

    Raises `InputError`.
    """
    if golden.request is not None:
        return open_rescue_turn(golden.request, file)
    tools: list[Json] = [{"name": name} for name in golden.cases[0].tools if name != respond_tool(()).name]
    return open_rescue_turn(tools, file)


def is_unchanged(case: GoldenCase) -> bool:
    """Whether the rescue parser makes of the text what is recorded."""
    return GoldenCase.of(case.title, case.said, case.tools) == case
