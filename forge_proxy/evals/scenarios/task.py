"""Building blocks of scenarios: a `Task` has the constant parts; `ScenarioState` adds tools with behavior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.definition import ToolDef, Workflow
from forge_proxy.evals.scenario import ReportEnd, ScenarioState
from forge_proxy.evals.scenarios.facts import Check

Does = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Task:
    """The user's request, the tools, and the check of the result."""

    name: str
    system: str
    user: str
    tools: tuple[ToolSpec, ...]
    terminal: str
    check: Check
    ideal: tuple[ToolCall, ...]
    required: tuple[str, ...] = ()
    report: ReportEnd | None = None
    """Set by default for tasks that end with `respond`."""

    def world(self, does: dict[str, Does], also: Check | None = None) -> ScenarioState:
        """Return the state of a run, with the functions of the tools. A tool without one accepts any arguments.

        `also` checks the state after a correct terminal call.
        """

        def validate(tool: str, args: JsonObject) -> str | None:
            if tool != self.terminal:
                return f"the run ended with {tool}, not with {self.terminal}"
            return self.check(args) or (also and also(args))

        tools = {spec.name: ToolDef(spec, does.get(spec.name, accept)) for spec in self.tools}
        workflow = Workflow(self.name, self.user, tools, self.required, self.terminal, self.system)
        report = self.report or (ReportEnd("message", lambda _: self.user) if self.terminal == "respond" else None)
        return ScenarioState(self.user, workflow, validate, self.ideal, report)


def accept(**_: Json) -> str:
    """The result of a tool that only stores its arguments."""
    return "accepted"


def always(result: Json) -> Does:
    """Return a tool with a constant result."""

    def give(**_: Json) -> Json:
        return result

    return give


def note_success(name: str, does: Does, taken: set[str]) -> Does:
    """Return a tool that also adds its name to `taken` when a call of it succeeds."""

    def give(**args: Json) -> Json:
        result = does(**args)
        taken.add(name)
        return result

    return give


def call(tool: str, /, **args: Json) -> ToolCall:
    """Return a call of an ideal run."""
    return ToolCall.of(tool, args)


def spec(name: str, about: str, /, **parameters: JsonObject) -> ToolSpec:
    """Return a tool specification with these arguments, all required."""
    schema: JsonObject = {"type": "object", "properties": parameters, "required": list(parameters)}
    return ToolSpec.from_json_schema(name, about, schema)


def text(about: str) -> JsonObject:
    """Return the schema of a string."""
    return {"type": "string", "description": about}


def integer(about: str) -> JsonObject:
    """Return the schema of an integer."""
    return {"type": "integer", "description": about}


def number(about: str) -> JsonObject:
    """Return the schema of a number."""
    return {"type": "number", "description": about}


def texts(about: str) -> JsonObject:
    """Return the schema of a list of strings."""
    return {"type": "array", "items": {"type": "string"}, "description": about}


def choice(about: str, *values: str) -> JsonObject:
    """Return the schema of an enumeration."""
    return {"type": "string", "enum": [*values], "description": about}
