"""What scenarios are written with: a task is what never changes of one; with tools that do something it is a world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.definition import ToolDef, Workflow
from forge_proxy.evals.scenario import ScenarioState
from forge_proxy.evals.scenarios.facts import Check

Does = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked for, with which tools, and what has to come out of it."""

    name: str
    system: str
    user: str
    tools: tuple[ToolSpec, ...]
    terminal: str
    check: Check
    ideal: tuple[ToolCall, ...]
    required: tuple[str, ...] = ()

    def world(self, does: dict[str, Does], also: Check | None = None) -> ScenarioState:
        """A world in which the tools do this; one that is left out, as the terminal one may be, takes what it is told.

        `also` is a check of what became of the world, made where the terminal call itself is right.
        """

        def validate(tool: str, args: JsonObject) -> str | None:
            if tool != self.terminal:
                return f"the run ended with {tool}, not with {self.terminal}"
            return self.check(args) or (also and also(args))

        tools = {spec.name: ToolDef(spec, does.get(spec.name, accept)) for spec in self.tools}
        workflow = Workflow(self.name, self.user, tools, self.required, self.terminal, self.system)
        return ScenarioState(self.user, workflow, validate, self.ideal)


def accept(**_: Json) -> str:
    """What a tool says that only takes note."""
    return "accepted"


def always(result: Json) -> Does:
    """A tool that gives the same result whatever it is asked."""

    def give(**_: Json) -> Json:
        return result

    return give


def call(tool: str, /, **args: Json) -> ToolCall:
    """A call of an ideal run."""
    return ToolCall.of(tool, args)


def spec(name: str, about: str, /, **parameters: JsonObject) -> ToolSpec:
    """A tool with these arguments, all of them required."""
    schema: JsonObject = {"type": "object", "properties": parameters, "required": list(parameters)}
    return ToolSpec.from_json_schema(name, about, schema)


def text(about: str) -> JsonObject:
    """A string."""
    return {"type": "string", "description": about}


def integer(about: str) -> JsonObject:
    """A whole number."""
    return {"type": "integer", "description": about}


def number(about: str) -> JsonObject:
    """A number."""
    return {"type": "number", "description": about}


def texts(about: str) -> JsonObject:
    """A list of strings."""
    return {"type": "array", "items": {"type": "string"}, "description": about}


def choice(about: str, *values: str) -> JsonObject:
    """One of some words."""
    return {"type": "string", "enum": [*values], "description": about}
