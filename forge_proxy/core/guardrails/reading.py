"""What a reply holds: its calls, native ones and those in its text or reasoning, and the text around them."""

from __future__ import annotations

from dataclasses import dataclass

from forge_proxy.core.chat import ToolCall
from forge_proxy.core.guardrails.turn import Outcome, Turn
from forge_proxy.core.guardrails.verdict import Mark
from forge_proxy.core.rescue import Found, Rescued, rescue
from forge_proxy.core.stream import Reply


@dataclass(frozen=True, slots=True)
class Reading:
    """The calls of a reply in order, how the rescued ones were written, and the remaining text (`""` for none)."""

    text: str
    calls: tuple[ToolCall, ...]
    marks: tuple[Mark, ...] = ()
    broken: bool = False
    """Whether a call was begun in the text and cannot be read."""


def read(turn: Turn, reply: Reply) -> Reading:
    """Find the calls of a reply."""
    text = reply.text or ""
    if not turn.policy.enabled.rescue:
        return Reading(text, reply.calls)
    rescued = rescue(text, turn.callable_names)
    found = _new_ones(rescued.calls, reply.calls)
    if rescued.calls or reply.calls or rescued.text.strip():
        calls = (*reply.calls, *(item.call for item in found))
        return Reading(rescued.text, calls, _marks(found), rescued.broken and not calls)
    # Some models never leave their thinking: a call that ends it was meant, one that more thinking follows was a draft.
    ending = _calls_at_end(reply.reasoning or "", turn)
    return Reading("", tuple(item.call for item in ending), _marks(ending))


def _new_ones(found: tuple[Found, ...], native: tuple[ToolCall, ...]) -> tuple[Found, ...]:
    """Those that are not native calls as well: some servers leave the markup in the text beside the call they read."""
    known = [(call.tool, call.args()) for call in native]
    return tuple(item for item in found if (item.call.tool, item.call.args()) not in known)


def _calls_at_end(reasoning: str, turn: Turn) -> tuple[Found, ...]:
    rescued: Rescued = rescue(reasoning, turn.callable_names)
    end = len(reasoning.rstrip())
    ending: list[Found] = []
    for item in reversed(rescued.calls):
        if reasoning[item.end : end].strip():
            break
        ending.insert(0, item)
        end = item.start
    return tuple(ending)


def _marks(found: tuple[Found, ...]) -> tuple[Mark, ...]:
    return tuple(Mark(Outcome.RESCUED, item.call.tool, f"{item.form} at {item.start}") for item in found)
