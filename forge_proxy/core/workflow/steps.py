"""Which calls of a run have succeeded, and which calls may not be made yet because of it.

Kept outside the messages: compaction may take from the model what it did, never from us.
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
        """The same with one more call that succeeded."""
        done = CompletedCall(tool, args or {})
        return self if done in self.done else replace(self, done=(*self.done, done))

    @property
    def completed(self) -> tuple[str, ...]:
        """The tools that have succeeded, in the order of their first time."""
        return tuple(dict.fromkeys(one.tool for one in self.done))

    def pending(self, required: Sequence[str]) -> tuple[str, ...]:
        """The required steps that are still to be done, in their order."""
        completed = self.completed
        return tuple(step for step in required if step not in completed)

    def missing(self, call: ToolCall, needed: Sequence[Prerequisite]) -> tuple[Prerequisite, ...]:
        """The prerequisites of a call that are not met."""
        return tuple(one for one in needed if not self._meets(call, one))

    def summary_hint(self) -> str:
        """What has been done, in words that may stand in for results that were cut."""
        return f"[Steps completed: {', '.join(self.completed)}]" if self.done else "[No steps completed yet]"

    def _meets(self, call: ToolCall, one: Prerequisite) -> bool:
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
    """A tool was called before what it needs."""

    call: ToolCall
    missing: tuple[Prerequisite, ...]


class StepRules(Protocol):
    """What has to come before what: a `Workflow` says so, and whoever else has these."""

    @property
    def required_steps(self) -> Sequence[str]:
        """The tools that have to succeed before a terminal one."""
        ...

    @property
    def terminal_tools(self) -> frozenset[str]:
        """The tools that end it."""
        ...

    @property
    def prerequisites(self) -> Mapping[str, Sequence[Prerequisite]]:
        """What a tool needs, by its name."""
        ...


def find_premature(rules: StepRules, steps: Steps, calls: Sequence[ToolCall]) -> PrematureTerminalCall | None:
    """The first terminal call in a batch while required steps are pending. What else is in the batch is not done yet,
    and may fail, so it does not count.
    """
    pending = steps.pending(rules.required_steps)
    if not pending:
        return None
    return next((PrematureTerminalCall(call, pending) for call in calls if call.tool in rules.terminal_tools), None)


def find_unprepared(rules: StepRules, steps: Steps, calls: Sequence[ToolCall]) -> MissingPrerequisite | None:
    """The first call in a batch whose prerequisites are not met by what was done before the batch."""
    for call in calls:
        if missing := steps.missing(call, rules.prerequisites.get(call.tool, ())):
            return MissingPrerequisite(call, missing)
    return None
