"""Renders findings for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import assert_never

from forge_proxy.cli.rescue.findings import Findings, FoundCall
from forge_proxy.cli.rescue.text_spans import TextSpan
from forge_proxy.cli.rescue.verdicts import corrections_in, describe_verdict
from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.jsontypes import kind_of

_WIDTH = 12
_MAX_CHARS = 4_000
"""Maximum number of characters of a text that are printed; `--json` prints all."""


def render_text(findings: Findings) -> str:
    """Return the output: a row for each fact, with further lines below its name."""
    return "\n".join(_escape_unprintable(line) for line in _lines(findings))


def _lines(findings: Findings) -> Iterator[str]:
    extraction = findings.extraction
    number = len(findings.calls)
    yield f"{number or 'no'} call{'s' if number != 1 else ''} found"
    for count, call in enumerate(findings.calls, 1):
        yield f"\ncall {count}: {call.tool}"
        yield from _about(call)
    yield ""
    if findings.is_thorough:
        yield _row("parser", "thorough; the quick one did not parse everything")
    yield from _below("text", extraction.text)
    yield from _below("reasoning", extraction.reasoning)
    if extraction.broken:
        yield _row("broken", "a call cannot be parsed")
    for one in findings.rejected:
        yield _row("not a call", f"{one.description} at {_describe_span(one.span)}: {one.reason}")
    yield _row("verdict", describe_verdict(findings.turn, findings.verdict))
    for sentence in corrections_in(findings.verdict):
        yield from _below("correction", sentence)


def _about(call: FoundCall) -> Iterator[str]:
    if call.call.tool != call.tool:
        yield _field("written as", call.call.tool)
    if found := call.recovered:
        yield _field("form", f"{found.form}, {'in markup' if found.explicit else 'without markup'}")
        where = _describe_span(call.span) if call.span else f"characters {found.start}-{found.end} of the reasoning"
        yield _field("at", f"{where}, in the reasoning" if call.is_in_reasoning and call.span else where)
        yield _field("syntax", f"repaired: {', '.join(found.repairs)}" if found.repairs else "valid")
        if found.open:
            yield _field("not closed", "cut, if the response ends at the token limit")
    if call.typed_arguments:
        args = call.call.args() or {}
        typed = ", ".join(f"{name} ({kind_of(args[name])})" for name in call.typed_arguments)
        yield _field("typed", f"{typed}: written as raw text, typed by the schema")
    if call.positional_arguments:
        yield _field("by position", ", ".join(call.positional_arguments))
    yield from _fields("arguments", _arguments(call))
    match call.checked:
        case Problem(fault, _, reasons):
            yield from _fields("invalid", list(reasons) or [fault.value.replace("_", " ")])
        case (_, ()):
            yield _field("check", "valid")
        case (_, marks):
            yield from _fields("repaired", [mark.detail for mark in marks if mark.kind is Outcome.REPAIRED])
            yield from _fields("check", [mark.detail for mark in marks if mark.kind is not Outcome.REPAIRED])
        case _:
            assert_never(call.checked)


def _arguments(call: FoundCall) -> list[str]:
    """Return the lines of the arguments as they would be delivered, or as written if they are not an object."""
    args = (call.call if isinstance(call.checked, Problem) else call.checked[0]).args()
    return (call.call.arguments if args is None else json.dumps(args, ensure_ascii=False, indent=2)).splitlines()


def _describe_span(span: TextSpan) -> str:
    return f"{span} (characters {span.start}-{span.end})"


def _row(name: str, value: str) -> str:
    return f"{name:<{_WIDTH}}{value}"


def _field(name: str, value: str) -> str:
    return f"  {_row(name, value)}"


def _fields(name: str, values: list[str]) -> Iterator[str]:
    """Yield a row for each value, the first one with the name."""
    for number, value in enumerate(values):
        yield _field("" if number else name, value)


def _below(name: str, text: str) -> Iterator[str]:
    """Yield a row for each line of a text, the first one with the name."""
    shown = text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}… and {len(text) - _MAX_CHARS} more characters"
    for number, line in enumerate(shown.strip("\n").split("\n") if text.strip() else ["none"]):
        yield _row("" if number else name, line)


def _escape_unprintable(line: str) -> str:
    """Escape unprintable characters: the text of a model may contain terminal commands."""
    return "".join(
        letter if letter.isprintable() or letter in "\t\n" else letter.encode("unicode_escape").decode()
        for letter in line
    )
