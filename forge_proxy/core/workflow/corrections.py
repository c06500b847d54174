"""What the model is told when its calls were not made: as their results, which is where tool-trained models look."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge_proxy.core.messages import Message, MessageType, ToolCall
from forge_proxy.core.workflow.steps import MissingPrerequisite, PrematureTerminalCall

TIERS = 3
"""How often a premature terminal call is corrected, each time more pressing."""


def step_nudges(
    found: PrematureTerminalCall, calls: Sequence[ToolCall], terminal: frozenset[str], tier: int
) -> list[Message]:
    """The results of a batch that was blocked since it would end the workflow too early. `tier` is 1 to 3."""
    pending = ", ".join(found.pending)
    wording = (
        "{tool} cannot run yet. First call: {pending}.",
        "{tool} was refused again, because these were not called: {pending}. Call {next} now.",
        "{tool} is refused until {pending} succeeded. Your next call must be {next}. This is the last warning.",
    )[min(tier, TIERS) - 1]

    def told(call: ToolCall) -> str:
        if call.tool in terminal:
            return wording.format(tool=call.tool, pending=pending, next=found.pending[0])
        return f"{call.tool} was not run, because {found.call.tool} beside it was refused. Call it again, alone."

    return _answers(MessageType.STEP_NUDGE, "StepEnforcementError", calls, told)


def prerequisite_nudges(found: MissingPrerequisite, calls: Sequence[ToolCall]) -> list[Message]:
    """The results of a batch that was blocked since one of its calls needs another one first."""
    missing = ", ".join(map(str, found.missing))

    def told(call: ToolCall) -> str:
        if call is found.call:
            return f"{call.tool} cannot run yet. First call: {missing}. Then call {call.tool} again."
        return f"{call.tool} was not run, because {found.call.tool} beside it was refused. Call it again as well."

    return _answers(MessageType.PREREQUISITE_NUDGE, "PrereqError", calls, told)


def _answers(
    kind: MessageType, prefix: str, calls: Sequence[ToolCall], told: Callable[[ToolCall], str]
) -> list[Message]:
    return [Message.of(kind, f"[{prefix}] {told(call)}", answers=call) for call in calls]
