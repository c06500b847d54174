"""Extraction of the calls of a reply, both native ones and those in its text or reasoning, and the text around them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from forge_proxy.core.guardrails.arguments.coerce import read_arguments
from forge_proxy.core.guardrails.arguments.mapping import map_arguments
from forge_proxy.core.guardrails.cut import find_incomplete_call, find_tool_name
from forge_proxy.core.guardrails.respond import MessageDecoder, read_message
from forge_proxy.core.guardrails.turn import Outcome, Turn
from forge_proxy.core.guardrails.verdict import Intervention
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.rescue import (
    RecoveredCall,
    RescueResult,
    estimate_parse_time,
    repair_arguments,
    repair_object,
    rescue,
)
from forge_proxy.core.rescue.readers.json_calls import MAX_CALLS
from forge_proxy.core.stream import Reply
from forge_proxy.core.tool_names import resolve_name

EXTRACTION_LIMIT = 50_000
"""Estimated microseconds above which a reply is not parsed on the event loop; parsing takes at most half of it."""
_TOO_MUCH = 1_000_000
_LONG = 200_000
"""Characters above which the work for a reply is not estimated."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """The calls of a reply in order, the interventions on them, and the remaining text (`""` for none)."""

    text: str
    calls: tuple[ToolCall, ...]
    interventions: tuple[Intervention, ...] = ()
    broken: bool = False
    """Whether a call was begun in the text and cannot be parsed."""
    may_recover_more: bool = False
    """Whether a thorough extraction may recover more."""
    reasoning: str = ""
    """The part of the text that is reasoning."""
    closes_reasoning: bool | None = None
    """Whether the text closes a reasoning block that it does not open; None if there is no text."""
    text_with_calls: str = ""
    """The text including its calls as the model wrote them."""
    rescued: tuple[ToolCall, ...] = ()
    """Those of the calls that the rescue parser recovered from text."""
    cut: str | None = None
    """The tool whose call was cut off at the token limit, `""` if its name is not known; None if no call was."""


def estimate_extraction(reply: Reply) -> int:
    """Estimate the maximum number of microseconds that `extract` takes. A long reply counts as too much, unexamined."""
    text, reasoning = reply.text or "", reply.reasoning or ""
    if len(text) + len(reasoning) + sum([len(call.arguments) for call in reply.calls]) > _LONG:
        return _TOO_MUCH
    return estimate_parse_time(text) + estimate_parse_time(reasoning)


def extract(turn: Turn, reply: Reply, *, thorough: bool = False) -> Extraction:
    """Find the calls of a reply. A `thorough` extraction takes much longer and must not run on the event loop."""
    reply, cut = _without_cut_call(turn, reply)
    text = reply.text or ""
    if not turn.policy.enabled.rescue:
        return Extraction(text, reply.calls, text_with_calls=text, cut=cut)
    repair = repair_object if thorough else None
    rescued = rescue(text, turn.callable_names, template_thinks=turn.buffers_text, repair=repair, form=turn.form)
    reasoning, written = rescued.reasoning, rescued.text_with_calls or rescued.text
    closes_thoughts = rescued.closes_reasoning if text.strip() else None
    if len(rescued.calls) > MAX_CALLS:
        return Extraction(text, reply.calls, broken=not reply.calls, reasoning=reasoning, text_with_calls=text)
    native, interventions, may_recover_more = _repair_native(reply.calls, thorough=thorough)
    complete, cut_in_text = _complete(turn, rescued.calls, reply)
    found = _without_duplicates(complete, native)
    if rescued.calls or reply.calls or rescued.text.strip() or rescued.broken:
        broken = rescued.broken or len(found) < len(rescued.calls)
    else:
        # Some models never close their reasoning: a call at its end is meant, one that more reasoning follows is a
        # draft.
        rescued, found = _calls_at_end((reply.reasoning or "") + rescued.reasoning, turn, reply)
        rescued, broken = replace(rescued, text=""), False
    calls = tuple(_call(turn, item) for item in found)
    around, begun = _without_begun_call(turn, rescued.text, reply)
    return Extraction(
        around,
        (*native, *calls),
        (*interventions, *_describe_recovery(found)),
        broken=broken and not native and not calls,
        may_recover_more=(rescued.may_recover_more and rescued.broken) or may_recover_more,
        reasoning=reasoning,
        closes_reasoning=closes_thoughts,
        text_with_calls=written,
        rescued=calls,
        cut=next((tool for tool in (cut, cut_in_text, begun) if tool is not None), None),
    )


def _without_cut_call(turn: Turn, reply: Reply) -> tuple[Reply, str | None]:
    """Return the reply without a native call that the token limit cut, and the name of that call's tool.

    Only the last call can be cut, and it is complete only if its arguments are closed. They are not repaired, because
    the missing rest is unknown. A message of the respond tool is kept, like any text that the limit cut.
    """
    if reply.finish != "length" or not reply.calls:
        return reply, None
    *others, last = reply.calls
    if read_arguments(last.arguments) is not None or _is_begun_message(turn, last):
        return reply, None
    return replace(reply, calls=tuple(others)), _resolve_offered(turn, last.tool)


def _is_begun_message(turn: Turn, call: ToolCall) -> bool:
    return turn.is_respond(call.tool) and bool(MessageDecoder().feed(call.arguments).strip())


def _resolve_offered(turn: Turn, tool: str) -> str:
    """Return the resolved name of a tool that the client offered, `""` for any other."""
    name = resolve_name(tool, turn.known_names)
    return name if name and name in turn.names else ""


def _complete(
    turn: Turn, found: tuple[RecoveredCall, ...], reply: Reply
) -> tuple[tuple[RecoveredCall, ...], str | None]:
    """Return the complete calls, and the tool of a call that was cut.

    At a token limit, an unclosed call was cut, and a call repaired at the very end may have been. A message of the
    respond tool is text and is kept.
    """
    if reply.finish != "length":
        return found, None
    end = len((reply.text or "").rstrip())
    cut = [item for item in found if item.open or (item.repairs and item.end >= end)]
    kept = [item for item in cut if turn.is_respond(item.call.tool) and read_message(item.call)]
    lost = [item for item in cut if item not in kept]
    complete = tuple(item for item in found if item not in lost)
    return complete, _resolve_offered(turn, lost[-1].call.tool) if lost else None


def _without_begun_call(turn: Turn, text: str, reply: Reply) -> tuple[str, str | None]:
    """Return the text before a call that was begun at the token limit, and the name of its tool if it is known."""
    if reply.finish != "length" or (begin := find_incomplete_call(text, turn.callable_names, turn.form)) is None:
        return text, None
    return text[:begin], find_tool_name(text[begin:], turn.names)


def _repair_native(
    calls: tuple[ToolCall, ...], *, thorough: bool
) -> tuple[tuple[ToolCall, ...], list[Intervention], bool]:
    """Repair the arguments of native calls; return calls, repairs, and whether a thorough pass may repair more."""
    out: list[ToolCall] = []
    interventions: list[Intervention] = []
    may_recover_more = False
    for call in calls:
        if call.args() is None and call.arguments.strip() and read_arguments(call.arguments) is None:
            repaired = repair_arguments(call.arguments, repair_object if thorough else None)
            may_recover_more = may_recover_more or repaired.may_recover_more
            if repaired.text is not None:
                interventions.append(
                    Intervention(Outcome.REPAIRED, call.tool, f"arguments: {', '.join(repaired.repairs)}")
                )
                call = replace(call, arguments=repaired.text)
        out.append(call)
    return tuple(out), interventions, may_recover_more


def _call(turn: Turn, found: RecoveredCall) -> ToolCall:
    """Convert a recovered call; if its form has no types, the schema of its tool determines those of the arguments."""
    name = resolve_name(found.call.tool, turn.known_names)
    tool = turn.tool(name) if name else None
    if tool is None:
        return found.call
    return replace(found.call, arguments=map_arguments(tool.parameters, found))


def _without_duplicates(found: Iterable[RecoveredCall], native: tuple[ToolCall, ...]) -> tuple[RecoveredCall, ...]:
    """Drop recovered calls that equal a native one: some servers keep the markup in the text as well."""
    known = [(call.tool, call.args()) for call in native]
    return tuple(item for item in found if (item.call.tool, item.call.args()) not in known)


def _calls_at_end(reasoning: str, turn: Turn, reply: Reply) -> tuple[RescueResult, tuple[RecoveredCall, ...]]:
    """Return the rescue result of the reasoning and the calls with which it ends."""
    rescued = rescue(reasoning, turn.callable_names, form=turn.form)
    end = len(reasoning.rstrip())
    ending: list[RecoveredCall] = []
    for item in reversed(rescued.calls):
        if reasoning[item.end : end].strip():
            break
        ending.insert(0, item)
        end = item.start
    return rescued, tuple(item for item in ending if not item.open or reply.finish != "length")


def _describe_recovery(found: tuple[RecoveredCall, ...]) -> tuple[Intervention, ...]:
    interventions: list[Intervention] = []
    for item in found:
        interventions.append(Intervention(Outcome.RESCUED, item.call.tool, f"{item.form} at {item.start}"))
        if item.repairs:
            interventions.append(Intervention(Outcome.REPAIRED, item.call.tool, f"broken: {', '.join(item.repairs)}"))
    return tuple(interventions)
