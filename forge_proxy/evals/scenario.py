"""What a scenario is: a task with tools whose results are known, and what has to come out of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.definition import Workflow


@dataclass(frozen=True, slots=True)
class ScenarioState:
    """A fresh copy of what a scenario is about, for one run: nothing that one run does is seen by another."""

    user_message: str
    workflow: Workflow
    validate: Callable[[str, JsonObject], str | None]
    """What is wrong with the terminal call, given its tool and arguments; None where nothing is."""
    ideal: tuple[ToolCall, ...] = ()
    """The calls of a model that makes no mistake, one an answer, the terminal one last."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A task. `ideal_iterations` is the number of answers that a model needs which makes no mistake."""

    name: str
    description: str
    tags: frozenset[str]
    ideal_iterations: int
    build: Callable[[int], ScenarioState]
    """The world of the run with that number, from 0: the same for the same number. Some scenarios differ by it in
    their data, so that many runs are not one prompt; the ideal number of iterations is that of all of them."""
    budget_tokens: int | None = None
    """The context the run has to make do with; None for all that the backend has."""
    max_iterations: int = 15
    quick: bool = False
    """Whether it is one of those that the tiny model understands."""
