"""Scenario types: a task with deterministic tools and a check of the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.definition import Workflow


@dataclass(frozen=True, slots=True)
class ReportEnd:
    """A terminal tool that only reports the result, so that a client can end the task in its own way instead."""

    field: str
    """The argument that has the report."""
    ask: Callable[[str | None], str]
    """Returns the user's message for a terminal tool of this name; None for a report as plain text."""


@dataclass(frozen=True, slots=True)
class ScenarioState:
    """The state of a scenario for one run. Runs do not share state."""

    user_message: str
    workflow: Workflow
    validate: Callable[[str, JsonObject], str | None]
    """Returns what is wrong with the terminal call, given its tool and arguments, or None if it is correct."""
    ideal: tuple[ToolCall, ...] = ()
    """The calls of a model without mistakes, one per response, the terminal call last."""
    report: ReportEnd | None = None
    """The terminal tool, if it only reports a result in one argument; else None."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A task. `ideal_iterations` is the number of responses that a model without mistakes needs."""

    name: str
    description: str
    tags: frozenset[str]
    ideal_iterations: int
    build: Callable[[int], ScenarioState]
    """Builds the state of a run from its number, starting at 0; deterministic. Some scenarios vary their data by run,
    so that prompts differ; `ideal_iterations` is the same for all runs."""
    budget_tokens: int | None = None
    """The context budget of the run in tokens; None for the backend's whole window."""
    max_iterations: int = 15
    quick: bool = False
    """Whether the embedded test model can solve it."""
