"""The successful calls of a run, and the checks of which calls are not allowed yet.

Steps are kept apart from the messages, so that compaction, which drops messages, cannot lose them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.definition import Prerequisite


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """A call that succeeded."""

    tool: str
    args: JsonObject


@dataclass(frozen=True, slots=True)
class Steps:
    """The calls that have succeeded, each once, in their order."""

    done: tuple[CompletedCall, ...] = ()

    def record(self, tool: str, args: JsonObject | None = None) -> Steps:
        """Return the steps with one more successful call."""
        call = CompletedCall(tool, args or {})
        return self if call in self.done else replace(self, done=(*self.done, call))

    @property
    def completed(self) -> tuple[str, ...]:
        """The tools that have succeeded, in order of their first success."""
        return tuple(dict.fromkeys(one.tool for one in self.done))

    def pending(self, required: Sequence[str]) -> tuple[str, ...]:
        """Return the required steps that have not succeeded yet, in order."""
        completed = self.completed
        return tuple(step for step in required if step not in completed)

    def missing(self, call: ToolCall, needed: Sequence[Prerequisite]) -> tuple[Prerequisite, ...]:
        """Return the unmet prerequisites of a call."""
        return tuple(one for one in needed if not self._is_met(call, one))

    def summary_hint(self) -> str:
        """Return a one-line summary of the completed steps, which replaces results that compaction dropped."""
        return f"[Steps completed: {', '.join(self.completed)}]" if self.done else "[No steps completed yet]"

    def _is_met(self, call: ToolCall, one: Prerequisite) -> bool:
        same = [done for done in self.done if done.tool == one.tool]
        if one.match_arg is None:
            return bool(same)
        args = call.args() or {}
        if one.match_arg not in args:
            return False
        return any(done.args.get(one.match_arg, _ABSENT) == args[one.match_arg] for done in same)


_ABSENT = object()


@dataclass(frozen=True, slots=True)
class PrematureTerminalCall:
    """A terminal tool was called before the required steps."""

    call: ToolCall
    pending: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MissingPrerequisite:
    """A tool was called before its prerequisites."""

    call: ToolCall
    missing: tuple[Prerequisite, ...]


class StepRules(Protocol):
    """The order of steps. `Workflow` implements it."""

    @property
    def required_steps(self) -> Sequence[str]:
        """The tools that must succeed before a terminal tool."""
        ...

    @property
    def terminal_tools(self) -> frozenset[str]:
        """The tools that end the run."""
        ...

    @property
    def prerequisites(self) -> Mapping[str, Sequence[Prerequisite]]:
        """The prerequisites of each tool, by its name."""
        ...


def find_premature(rules: StepRules, steps: Steps, calls: Sequence[ToolCall]) -> PrematureTerminalCall | None:
    """Return the first terminal call in a batch if required steps are pending.

    Other calls of the same batch do not count as completed, because they have not been executed and may fail.
    """
    pending = steps.pending(rules.required_steps)
    if not pending:
        return None
    return next((PrematureTerminalCall(call, pending) for call in calls if call.tool in rules.terminal_tools), None)


def find_unprepared(rules: StepRules, steps: Steps, calls: Sequence[ToolCall]) -> MissingPrerequisite | None:
    """Return the first call in a batch whose prerequisites were not met before the batch."""
    for call in calls:
        if missing := steps.missing(call, rules.prerequisites.get(call.tool, ())):
            return MissingPrerequisite(call, missing)
    return None
