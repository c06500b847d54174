"""Extraction of the calls of a reply, both native ones and those in its text or reasoning, and the text around them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from forge_proxy.core.guardrails.argument_mapping import meant_arguments
from forge_proxy.core.guardrails.coerce import read_arguments
from forge_proxy.core.guardrails.cut import find_begun_call, name_in
from forge_proxy.core.guardrails.respond import MessageDecoder, message_of
from forge_proxy.core.guardrails.turn import Outcome, Turn
from forge_proxy.core.guardrails.verdict import Intervention
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.rescue import RecoveredCall, RescueResult, mend_arguments, mend_object, rescue
from forge_proxy.core.rescue.parsed_call import MAX_CALLS
from forge_proxy.core.rescue.work import estimate_work
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
    marks: tuple[Intervention, ...] = ()
    broken: bool = False
    """Whether a call was begun in the text and cannot be parsed."""
    unread: bool = False
    """Whether a thorough extraction may recover more."""
    thought: str = ""
    """The part of the text that is reasoning."""
    closes_thoughts: bool | None = None
    """Whether the text closes a reasoning block that it does not open; None if there is no text."""
    written: str = ""
    """The text including its calls as the model wrote them."""
    rescued: tuple[ToolCall, ...] = ()
    """Those of the calls that the rescue parser recovered from text."""
    cut: str | None = None
    """The tool whose call was cut off at the token limit, `""` if its name is not known; None if no call was."""


def estimate_extraction(reply: Reply) -> int:
    """Estimate the maximum number of microseconds that `read` takes. A long reply counts as too much, unexamined."""
    text, reasoning = reply.text or "", reply.reasoning or ""
    if len(text) + len(reasoning) + sum([len(call.arguments) for call in reply.calls]) > _LONG:
        return _TOO_MUCH
    return estimate_work(text) + estimate_work(reasoning)


def read(turn: Turn, reply: Reply, *, thorough: bool = False) -> Extraction:
    """Find the calls of a reply. A `thorough` extraction takes much longer and must not run on the event loop."""
    reply, cut = _without_cut_call(turn, reply)
    text = reply.text or ""
    if not turn.policy.enabled.rescue:
        return Extraction(text, reply.calls, written=text, cut=cut)
    mend = mend_object if thorough else None
    rescued = rescue(text, turn.callable_names, template_thinks=turn.text_waits, mend=mend)
    thought, written = rescued.reasoning, rescued.written or rescued.text
    closes_thoughts = rescued.closes_thoughts if text.strip() else None
    if len(rescued.calls) > MAX_CALLS:
        return Extraction(text, reply.calls, broken=not reply.calls, thought=thought, written=text)
    native, marks, unread = _repair_native(reply.calls, thorough=thorough)
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
        (*marks, *_marks(found)),
        broken=broken and not native and not calls,
        unread=(rescued.unread and rescued.broken) or unread,
        thought=thought,
        closes_thoughts=closes_thoughts,
        written=written,
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
    return replace(reply, calls=tuple(others)), _offered(turn, last.tool)


def _is_begun_message(turn: Turn, call: ToolCall) -> bool:
    return turn.is_respond(call.tool) and bool(MessageDecoder().feed(call.arguments).strip())


def _offered(turn: Turn, tool: str) -> str:
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
    kept = [item for item in cut if turn.is_respond(item.call.tool) and message_of(item.call)]
    lost = [item for item in cut if item not in kept]
    complete = tuple(item for item in found if item not in lost)
    return complete, _offered(turn, lost[-1].call.tool) if lost else None


def _without_begun_call(turn: Turn, text: str, reply: Reply) -> tuple[str, str | None]:
    """Return the text before a call that was begun at the token limit, and the name of its tool if it is known."""
    if reply.finish != "length" or (begin := find_begun_call(text, turn.callable_names)) is None:
        return text, None
    return text[:begin], name_in(text[begin:], turn.names)


def _repair_native(
    calls: tuple[ToolCall, ...], *, thorough: bool
) -> tuple[tuple[ToolCall, ...], list[Intervention], bool]:
    """Repair the arguments of native calls; return calls, repairs, and whether a thorough pass may repair more."""
    out: list[ToolCall] = []
    marks: list[Intervention] = []
    unread = False
    for call in calls:
        if call.args() is None and call.arguments.strip() and read_arguments(call.arguments) is None:
            mended = mend_arguments(call.arguments, mend_object if thorough else None)
            unread = unread or mended.unread
            if mended.text is not None:
                marks.append(Intervention(Outcome.REPAIRED, call.tool, f"arguments: {', '.join(mended.repairs)}"))
                call = replace(call, arguments=mended.text)
        out.append(call)
    return tuple(out), marks, unread


def _call(turn: Turn, found: RecoveredCall) -> ToolCall:
    """Convert a recovered call; if its form has no types, the schema of its tool determines those of the arguments."""
    name = resolve_name(found.call.tool, turn.known_names)
    tool = turn.tool(name) if name else None
    if tool is None:
        return found.call
    return replace(found.call, arguments=meant_arguments(tool.parameters, found))


def _without_duplicates(found: Iterable[RecoveredCall], native: tuple[ToolCall, ...]) -> tuple[RecoveredCall, ...]:
    """Drop recovered calls that equal a native one: some servers keep the markup in the text as well."""
    known = [(call.tool, call.args()) for call in native]
    return tuple(item for item in found if (item.call.tool, item.call.args()) not in known)


def _calls_at_end(reasoning: str, turn: Turn, reply: Reply) -> tuple[RescueResult, tuple[RecoveredCall, ...]]:
    """Return the rescue result of the reasoning and the calls with which it ends."""
    rescued = rescue(reasoning, turn.callable_names)
    end = len(reasoning.rstrip())
    ending: list[RecoveredCall] = []
    for item in reversed(rescued.calls):
        if reasoning[item.end : end].strip():
            break
        ending.insert(0, item)
        end = item.start
    return rescued, tuple(item for item in ending if not item.open or reply.finish != "length")


def _marks(found: tuple[RecoveredCall, ...]) -> tuple[Intervention, ...]:
    marks: list[Intervention] = []
    for item in found:
        marks.append(Intervention(Outcome.RESCUED, item.call.tool, f"{item.form} at {item.start}"))
        if item.repairs:
            marks.append(Intervention(Outcome.REPAIRED, item.call.tool, f"broken: {', '.join(item.repairs)}"))
    return tuple(marks)
