"""The corrections for calls that were blocked, sent as their tool results, where tool-trained models expect them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge_proxy.core.messages import Message, MessageType, ToolCall
from forge_proxy.core.workflow.steps import MissingPrerequisite, PrematureTerminalCall

MAX_TIER = 3
"""The number of corrections of a premature terminal call, each more insistent."""


def build_step_nudges(
    found: PrematureTerminalCall, calls: Sequence[ToolCall], terminal: frozenset[str], tier: int
) -> list[Message]:
    """Return the results of a batch that was blocked because of a premature terminal call. `tier` is 1 to 3."""
    pending = ", ".join(found.pending)
    wording = (
        "{tool} cannot run yet. First call: {pending}.",
        "{tool} was refused again, because these were not called: {pending}. Call {next} now.",
        "{tool} is refused until {pending} succeeded. Your next call must be {next}. This is the last warning.",
    )[min(tier, MAX_TIER) - 1]

    def correction(call: ToolCall) -> str:
        if call.tool in terminal:
            return wording.format(tool=call.tool, pending=pending, next=found.pending[0])
        return f"{call.tool} was not run, because {found.call.tool} beside it was refused. Call it again, alone."

    return _to_results(MessageType.STEP_NUDGE, "StepEnforcementError", calls, correction)


def build_prerequisite_nudges(found: MissingPrerequisite, calls: Sequence[ToolCall]) -> list[Message]:
    """Return the results of a batch that was blocked because a call lacks a prerequisite."""
    missing = ", ".join(map(str, found.missing))

    def correction(call: ToolCall) -> str:
        if call is found.call:
            return f"{call.tool} cannot run yet. First call: {missing}. Then call {call.tool} again."
        return f"{call.tool} was not run, because {found.call.tool} beside it was refused. Call it again as well."

    return _to_results(MessageType.PREREQUISITE_NUDGE, "PrereqError", calls, correction)


def _to_results(
    kind: MessageType, prefix: str, calls: Sequence[ToolCall], correction: Callable[[ToolCall], str]
) -> list[Message]:
    return [Message.of(kind, f"[{prefix}] {correction(call)}", answers=call) for call in calls]
