"""Checks one call: is the tool offered, may it be called, do its arguments satisfy its schema. Mends what is sure."""

from __future__ import annotations

from dataclasses import replace

from forge_proxy.core.chat import Schema
from forge_proxy.core.guardrails.coerce import coerce_args, read_arguments
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.guardrails.schema import check_arguments, faults_in, surplus_in
from forge_proxy.core.guardrails.turn import Fault, Outcome, Turn
from forge_proxy.core.guardrails.verdict import Intervention
from forge_proxy.core.jsontypes import DEEPEST, Json, is_nested_too_deeply, write
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.tool_names import resolve_name

_LONGEST_NAME = 64
"""Characters of a tool's name in front of why its arguments were not checked."""
_TOO_DEEP = f"arguments: nested more than {DEEPEST} levels deep"
CheckedCall = tuple[ToolCall, tuple[Intervention, ...]]


def check(turn: Turn, call: ToolCall) -> CheckedCall | Problem:
    """The call as it may go out, with what was mended; or what is wrong with it.

    The arguments' text stays as the model wrote it unless a value had to be repaired. Arguments nested too deeply
    are the model's fault: no later turn of the conversation could be sent with them.
    """
    if is_nested_too_deeply(call.arguments):
        return Problem(Fault.MALFORMED, call, (_TOO_DEEP,))
    checked = _checked(turn, call)
    if not isinstance(checked, Problem) and is_nested_too_deeply(checked[0].arguments):
        return Problem(Fault.MALFORMED, call, (_TOO_DEEP,))
    return checked


def _checked(turn: Turn, call: ToolCall) -> CheckedCall | Problem:
    name = resolve_name(call.tool, turn.known_names)
    tool = turn.tool(name) if name else None
    if tool is None:
        return Problem(Fault.UNKNOWN_TOOL, call)
    marks = (
        ()
        if tool.name == call.tool
        else (Intervention(Outcome.REPAIRED, tool.name, f"name: {call.tool} → {tool.name}"),)
    )
    call = replace(call, tool=tool.name)
    if tool is not turn.respond and not turn.choice.allows(tool.name):
        return Problem(Fault.NOT_ALLOWED, call)
    strict = call.args()
    args = strict if strict is not None else read_arguments(call.arguments or "{}")
    if args is None:
        return Problem(Fault.MALFORMED, call, ("arguments are not a JSON object",))
    is_valid, unchecked = check_arguments(tool.parameters, args)
    if unchecked:
        marks += (Intervention(Outcome.CLEAN, "", f"unchecked {tool.name[:_LONGEST_NAME]}: {unchecked}"),)
    if not is_valid:
        mended, changes = _mend(tool.parameters, args)
        faults = faults_in(tool.parameters, mended)
        if faults:
            return Problem(Fault.BAD_ARGUMENTS, call, faults)
        marks += tuple(Intervention(Outcome.REPAIRED, tool.name, change) for change in changes)
        return replace(call, arguments=write(mended)), marks
    if strict is None:
        marks += (Intervention(Outcome.REPAIRED, tool.name, "arguments: unwrapped"),) if call.arguments else ()
        call = replace(call, arguments=write(args))
    return call, marks


def _mend(schema: Schema, args: dict[str, Json]) -> tuple[dict[str, Json], tuple[str, ...]]:
    mended, changes = coerce_args(schema, args)
    surplus = surplus_in(schema, mended)
    kept = {key: value for key, value in mended.items() if key not in surplus}
    return kept, (*changes, *(f"{key}: dropped, the schema has no such parameter" for key in surplus))
