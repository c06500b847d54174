"""What was found, for a person at a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import assert_never

from forge_proxy.cli.rescue.findings import Findings, FoundCall
from forge_proxy.cli.rescue.text_spans import TextSpan
from forge_proxy.cli.rescue.verdicts import corrections, in_words
from forge_proxy.core.guardrails import Outcome
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.jsontypes import kind_of

_WIDTH = 12
_LONGEST = 4_000
"""Characters of a text that are shown; `--json` has all of it."""


def show(findings: Findings) -> str:
    """The whole output: a line for each fact, what is longer below its name."""
    return "\n".join(_visible(line) for line in _lines(findings))


def _lines(findings: Findings) -> Iterator[str]:
    reading = findings.reading
    number = len(findings.calls)
    yield f"{number or 'no'} call{'s' if number != 1 else ''} found"
    for count, call in enumerate(findings.calls, 1):
        yield f"\ncall {count}: {call.tool}"
        yield from _about(call)
    yield ""
    if findings.thorough:
        yield _row("reading", "thorough: something broken was left unread by the quick one")
    yield from _below("text", reading.text)
    yield from _below("thoughts", reading.thought)
    if reading.broken:
        yield _row("broken", "a call was begun that cannot be read")
    for one in findings.left_out:
        yield _row("not a call", f"{one.what} at {_where(one.place)}: {one.why}")
    yield _row("verdict", in_words(findings.turn, findings.verdict))
    for sentence in corrections(findings.verdict):
        yield from _below("and says", sentence)


def _about(call: FoundCall) -> Iterator[str]:
    if call.call.tool != call.tool:
        yield _field("said as", call.call.tool)
    if found := call.found:
        yield _field("form", f"{found.form}, {'in markup' if found.explicit else 'without markup'}")
        where = _where(call.place) if call.place else f"characters {found.start}-{found.end} of the thoughts"
        yield _field("at", f"{where}, in the thoughts" if call.in_thoughts and call.place else where)
        yield _field("mended", ", ".join(found.repairs) or "nothing")
        if found.open:
            yield _field("not closed", "at a token limit it would count as cut")
    if call.typed:
        args = call.call.args() or {}
        typed = ", ".join(f"{name} ({kind_of(args[name])})" for name in call.typed)
        yield _field("typed", f"{typed}: written as raw text, typed by the schema")
    if call.by_position:
        yield _field("by position", ", ".join(call.by_position))
    yield from _fields("arguments", _arguments(call))
    match call.checked:
        case Problem(fault, _, reasons):
            yield from _fields("invalid", list(reasons) or [fault.value.replace("_", " ")])
        case (_, ()):
            yield _field("check", "valid as it is")
        case (_, marks):
            yield from _fields("repaired", [mark.detail for mark in marks if mark.kind is Outcome.REPAIRED])
            yield from _fields("check", [mark.detail for mark in marks if mark.kind is not Outcome.REPAIRED])
        case _:
            assert_never(call.checked)


def _arguments(call: FoundCall) -> list[str]:
    """The arguments as they would go out, a line each; as they were written where they are no object."""
    args = (call.call if isinstance(call.checked, Problem) else call.checked[0]).args()
    return (call.call.arguments if args is None else json.dumps(args, ensure_ascii=False, indent=2)).splitlines()


def _where(place: TextSpan) -> str:
    return f"{place} (characters {place.start}-{place.end})"


def _row(name: str, value: str) -> str:
    return f"{name:<{_WIDTH}}{value}"


def _field(name: str, value: str) -> str:
    return f"  {_row(name, value)}"


def _fields(name: str, values: list[str]) -> Iterator[str]:
    """Several lines under one name."""
    for number, value in enumerate(values):
        yield _field("" if number else name, value)


def _below(name: str, text: str) -> Iterator[str]:
    """A text of any number of lines."""
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… and {len(text) - _LONGEST} characters more"
    for number, line in enumerate(shown.strip("\n").split("\n") if text.strip() else ["none"]):
        yield _row("" if number else name, line)


def _visible(line: str) -> str:
    """A line whose characters all show and do nothing else: what a model wrote may hold a terminal's commands."""
    return "".join(
        letter if letter.isprintable() or letter in "\t\n" else letter.encode("unicode_escape").decode()
        for letter in line
    )
