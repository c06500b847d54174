"""Records what the clients of each set of tools do with calls, and derives from it which of their tools are terminal.

A tool whose calls were delivered at least three times and never came back with a result, while calls of other tools
did, ends the client's task. A result that arrives later revokes this at once. Names of tools are stored; no prompt, no
argument and no result is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.guardrails.repeats import find_latest_answered_tools
from forge_proxy.core.guardrails.terminal_tools import TerminalTool
from forge_proxy.core.guardrails.turn import Turn
from forge_proxy.core.guardrails.verdict import FinalAnswer

MIN_UNANSWERED = 3
"""Minimum number of delivered calls without a result before a tool counts as terminal."""
_MAX_RECORDS = 128
"""Maximum number of tool sets; the least recently used one is forgotten first."""
_MAX_NAMES = 64
"""Maximum number of names that are stored of one tool set, and of those with and without results."""


@dataclass(slots=True)
class ToolSetRecord:
    """The requests that offered one set of tools."""

    tools: tuple[str, ...]
    """The first names, in alphabetical order."""
    tool_count: int
    terminal: tuple[TerminalTool, ...] = ()
    """The terminal tools of the latest request."""
    requests: int = 0
    last_request: float = 0.0
    """The time of the latest request, by the engine's clock."""
    answered: set[str] = field(default_factory=set[str])
    """Tools of which a call has come back with a result."""
    unanswered: dict[str, int] = field(default_factory=dict[str, int])
    """The number of delivered calls of each other tool."""

    @property
    def kind(self) -> Literal["text", "terminal"]:
        """How the clients end a task: with plain text, or with a call of a terminal tool."""
        return "terminal" if self.terminal else "text"

    def find_unanswered_tools(self) -> tuple[str, ...]:
        """Return the tools that are terminal by evidence."""
        if not self.answered:
            return ()
        return tuple(name for name, calls in self.unanswered.items() if calls >= MIN_UNANSWERED)

    def record_results(self, names: Collection[str]) -> None:
        """Record that calls of these tools have come back with a result."""
        for name in names:
            self.unanswered.pop(name, None)
            if len(self.answered) < _MAX_NAMES:
                self.answered.add(name)

    def record_answers(self, turn: Turn, answers: Sequence[FinalAnswer]) -> None:
        """Record the calls of offered tools that were delivered to the client."""
        called = {call.tool for answer in answers for call in answer.calls}
        for name in called.intersection(tool.name for tool in turn.tools) if called else ():
            if name not in self.answered and (name in self.unanswered or len(self.unanswered) < _MAX_NAMES):
                self.unanswered[name] = self.unanswered.get(name, 0) + 1


class ClientHistory:
    """The records of the tool sets since the daemon started, by an id derived from the names of the tools."""

    def __init__(self) -> None:
        self.is_enabled = True
        """Whether requests are recorded. If not, no tool is terminal by evidence."""
        self._records: dict[str, ToolSetRecord] = {}

    @property
    def records(self) -> Mapping[str, ToolSetRecord]:
        """The records by the ids of the tool sets; the most recently used one is the last."""
        return self._records

    def record_request(self, request: ChatRequest, now: float) -> ToolSetRecord:
        """Record a request and the results in it. Returns the record of its tool set; a request without tools, or that
        is not recorded, has an empty one.
        """
        if not request.tools or not self.is_enabled:
            return ToolSetRecord((), 0)
        identity = _identify(request.tools)
        record = self._records.pop(identity, None)
        if record is None:
            names = sorted(tool.name for tool in request.tools)
            record = ToolSetRecord(tuple(names[:_MAX_NAMES]), len(names))
        self._records[identity] = record
        if len(self._records) > _MAX_RECORDS:
            del self._records[next(iter(self._records))]
        record.requests += 1
        record.last_request = now
        if answered := find_latest_answered_tools(request.messages):
            record.record_results(answered.intersection(tool.name for tool in request.tools))
        return record

    def forget(self) -> None:
        """Reset all records."""
        self._records.clear()


def _identify(tools: Sequence[ToolSpec]) -> str:
    names = "\0".join(sorted(tool.name for tool in tools))
    return hashlib.sha256(names.encode("utf-8", "surrogatepass")).hexdigest()[:12]
