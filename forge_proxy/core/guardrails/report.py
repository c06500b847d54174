"""The report of a finished request: outcome, attempts, tokens and interventions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forge_proxy.core.backend_errors import BackendError, UnreadCall
from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails import FinalAnswer, Intervention, Outcome, Turn
from forge_proxy.core.guardrails.terminal_tools import TerminalTool
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.redaction import redact_quotes

_LONGEST_NAME, _LONGEST = 64, 160
"""Characters of a tool's name and of what was done: names may be whatever a model wrote."""


@dataclass(frozen=True, slots=True)
class Report:
    """The last item that an answer yields. `tokens` are those of all attempts, None if the backend reports none."""

    outcome: Outcome
    attempts: int = 1
    faults: tuple[Fault, ...] = ()
    interventions: tuple[Intervention, ...] = ()
    tokens: int | None = None

    @classmethod
    def of_answers(cls, turn: Turn, answers: Sequence[FinalAnswer], tokens: int) -> Report:
        """Report on the final answers of a guarded request, one for each choice."""
        outcome = Outcome.select_furthest(answer.outcome for answer in answers)
        interventions = tuple(one for answer in answers for one in answer.interventions)
        if turn.ends_with_call and turn.policy.enabled.respond:
            interventions = (*interventions, _describe_terminal(turn.terminal))
        return cls(outcome, turn.attempt, turn.faults, interventions, tokens or None)

    @classmethod
    def of_relay(cls, suppressed: tuple[Intervention, ...]) -> Report:
        """Report on a relayed response, given the suppressed calls."""
        return cls(Outcome.REPAIRED if suppressed else Outcome.PASSTHROUGH, interventions=suppressed)

    def with_dropped(self, request: ChatRequest) -> Report:
        """Return the report with what of the request no model server can do."""
        dropped = tuple(Intervention(Outcome.CLEAN, "", f"dropped {what}") for what in request.dropped)
        return replace(self, interventions=(*dropped, *self.interventions)) if dropped else self

    @property
    def has_loop(self) -> bool:
        """Whether the response repeated itself. It may have been cut for that reason, with finish reason `length`."""
        return any(intervention.detail.startswith("loop in ") for intervention in self.interventions)

    @property
    def descriptions(self) -> tuple[str, ...]:
        """Descriptions of the interventions, such as `repaired get_weather: days: string → integer`; never a value."""
        return tuple(_describe(intervention) for intervention in self.interventions)


def summary_of(error: ForgeError, request: ChatRequest) -> str:
    """Return the text to log for the error of a request, with the model server's message but without the prompt.

    Messages about an unparsable call, which quote the model, and about keys are omitted.
    """
    if not isinstance(error, BackendError) or isinstance(error, UnreadCall) or error.status in (401, 403):
        return error.summary
    words = redact_quotes(error.server_message, request.body)
    return f"{error.summary}: {words}" if words else error.summary


def as_fits(parts: Sequence[str], room: int) -> list[str]:
    """Return as many parts as fit into `room` characters, two between them, and a count of the remaining ones."""
    kept: list[str] = []
    for number, part in enumerate(parts):
        room -= len(part) + 2
        if room < 0:
            return [*kept, f"and {len(parts) - number} more"]
        kept.append(part)
    return kept


def cut_name(tool: str) -> str:
    """Return a tool's name, truncated for logs."""
    return _cut(tool, _LONGEST_NAME)


def _describe_terminal(terminal: Sequence[TerminalTool]) -> Intervention:
    first, others = terminal[0], len(terminal) - 1
    names = f"{cut_name(first.name)} and {others} more end" if others else f"{cut_name(first.name)} ends"
    return Intervention(Outcome.CLEAN, "", f"respond not offered: {names} the task ({first.reason})")


def _describe(intervention: Intervention) -> str:
    detail = _cut(intervention.detail, _LONGEST)
    return f"{intervention.kind.value} {cut_name(intervention.tool)}: {detail}" if intervention.tool else detail


def _cut(words: str, longest: int) -> str:
    return words if len(words) <= longest else f"{words[:longest]}…"
