"""Validation of one call: tool name, `tool_choice` and arguments. Unambiguous faults are repaired."""

from __future__ import annotations

from dataclasses import replace

from forge_proxy.core.chat import Schema, ToolSpec
from forge_proxy.core.guardrails.arguments.coerce import coerce_args, read_arguments
from forge_proxy.core.guardrails.grammar_check import CheckedCall, check_grammar, recover_text
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.guardrails.schema.compiled import check_arguments, find_faults, find_surplus_parameters
from forge_proxy.core.guardrails.turn import Fault, Outcome, Turn
from forge_proxy.core.guardrails.verdict import Intervention
from forge_proxy.core.jsontypes import MAX_NESTING, Json, is_nested_too_deeply, write
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.tool_names import resolve_name

_LONGEST_NAME = 64
"""Maximum characters of a tool's name in the note that its arguments were not checked."""
_TOO_DEEP = f"arguments: nested more than {MAX_NESTING} levels deep"


def check(turn: Turn, call: ToolCall, *, is_complete: bool = True) -> CheckedCall | Problem:
    """Validate and repair a call. Returns the call to deliver with its repairs, or the problem.

    `is_complete` is whether the model wrote the arguments to their end, rather than a repair.

    The arguments' text stays as the model wrote it unless a value had to be repaired. Arguments that are nested too
    deeply are a fault, because the client could not send them in later turns of the conversation.
    """
    if is_nested_too_deeply(call.arguments):
        return Problem(Fault.MALFORMED, call, (_TOO_DEEP,))
    checked = _check(turn, call, is_complete=is_complete)
    if not isinstance(checked, Problem) and is_nested_too_deeply(checked[0].arguments):
        return Problem(Fault.MALFORMED, call, (_TOO_DEEP,))
    return checked


def _check(turn: Turn, call: ToolCall, *, is_complete: bool) -> CheckedCall | Problem:
    name = resolve_name(call.tool, turn.known_names)
    tool = turn.tool(name) if name else None
    if tool is None:
        return Problem(Fault.UNKNOWN_TOOL, call)
    interventions = (
        ()
        if tool.name == call.tool
        else (Intervention(Outcome.REPAIRED, tool.name, f"name: {call.tool} → {tool.name}"),)
    )
    call = replace(call, tool=tool.name)
    if tool is not turn.respond and not turn.choice.allows(tool.name):
        return Problem(Fault.NOT_ALLOWED, call)
    checked = _check_arguments(tool, call)
    if tool.grammar is not None:
        if isinstance(checked, Problem):
            checked = recover_text(tool.grammar, call) or checked
        else:
            checked = check_grammar(tool.grammar, *checked, is_complete=is_complete)
    return checked if isinstance(checked, Problem) else (checked[0], interventions + checked[1])


def _check_arguments(tool: ToolSpec, call: ToolCall) -> CheckedCall | Problem:
    interventions: tuple[Intervention, ...] = ()
    strict = call.args()
    args = strict if strict is not None else read_arguments(call.arguments or "{}")
    if args is None:
        return Problem(Fault.MALFORMED, call, ("arguments are not a JSON object",))
    is_valid, unchecked = check_arguments(tool.parameters, args)
    if unchecked:
        interventions += (Intervention(Outcome.CLEAN, "", f"unchecked {tool.name[:_LONGEST_NAME]}: {unchecked}"),)
    if not is_valid:
        repaired, changes = _repair(tool.parameters, args, len(call.arguments))
        faults = find_faults(tool.parameters, repaired)
        if faults:
            return Problem(Fault.BAD_ARGUMENTS, call, faults)
        interventions += tuple(Intervention(Outcome.REPAIRED, tool.name, change) for change in changes)
        return replace(call, arguments=write(repaired)), interventions
    if strict is None:
        interventions += (Intervention(Outcome.REPAIRED, tool.name, "arguments: unwrapped"),) if call.arguments else ()
        call = replace(call, arguments=write(args))
    return call, interventions


def _repair(schema: Schema, args: dict[str, Json], length: int) -> tuple[dict[str, Json], tuple[str, ...]]:
    repaired, changes = coerce_args(schema, args, length)
    surplus = find_surplus_parameters(schema, repaired)
    kept = {key: value for key, value in repaired.items() if key not in surplus}
    return kept, (*changes, *(f"{key}: dropped, the schema has no such parameter" for key in surplus))
