"""The kinds of client on the proxy surface: how each one ends a task, and what it does with plain text.

`scenario`: the scenario's own terminal tool, or plain text if it ends with `respond`.
`text`: plain text ends the task and is its result. The client has no terminal tool.
`terminal`: a terminal tool ends the task; plain text ends it without a result, so the run fails.
`reprompting`: as `terminal`, but the client answers plain text with a message that asks for a call, up to
`MAX_REPROMPTS` times in a run.
`required`: as `terminal`, and each request has `tool_choice: required`.

All but `scenario` replace the end of the scenario, so that every kind is measured on the same tasks. If the scenario's
terminal tool only reports (`ScenarioState.report`), the client's own end takes its place. Otherwise it is an action:
it is executed like other tools, and the task ends with the client's own end after it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.definition import ToolDef, Workflow
from forge_proxy.evals.scenario import ScenarioState
from forge_proxy.evals.scenarios.task import Does, call, spec, text
from forge_proxy.workflows.sdk.respond import respond_tool

ClientKind: TypeAlias = Literal["scenario", "text", "terminal", "reprompting", "required"]
CLIENTS: tuple[ClientKind, ...] = get_args(ClientKind)
MAX_REPROMPTS = 3
REPROMPT = "Your last message has no tool call. Call a tool to continue, or call {end} if the task is done."
RESPOND = respond_tool().name


@dataclass(frozen=True, slots=True)
class _End:
    """A terminal tool of a client, and the parameter that has the result."""

    name: str
    field: str
    description: str


_ENDS = (
    _End("attempt_completion", "result", "Present the result of the task to the user once the task is complete."),
    _End("final_answer", "answer", "Provide the final answer to the given task."),
    _End("submit", "answer", "Submit an answer for evaluation."),
    _End("finish", "message", "Finish the task and report its result."),
    _End("complete_task", "result", "Complete the task and hand over its result."),
)
"""Names and parameters as agents use them; the descriptions were written for the evals."""


def select_clients(names: Sequence[str]) -> Sequence[ClientKind]:
    """Return the named kinds of client; `scenario` without names. Raises `InvalidRequest` for an unknown name."""
    unknown = next((name for name in names if name not in CLIENTS), None)
    if unknown is not None:
        raise InvalidRequest("client", f"no kind of client {unknown!r}; available: {', '.join(CLIENTS)}")
    return tuple(kind for kind in CLIENTS if kind in (names or ("scenario",)))


def adapt_scenario(state: ScenarioState, client: ClientKind, key: str) -> ScenarioState:
    """Return the scenario as this kind of client runs it. `key` selects the name of its terminal tool."""
    if client == "scenario":
        return state
    end = None if client == "text" else _ENDS[zlib.crc32(key.encode()) % len(_ENDS)]
    actions = _FirstAction(state)
    tools = {name: actions.observe(tool) for name, tool in state.workflow.tools.items() if not _is_report(state, name)}
    final = respond_tool() if end is None else _end_tool(end)
    tools[final.name] = final
    field = "message" if end is None else end.field

    def validate(tool: str, args: JsonObject) -> str | None:
        if tool != final.name:
            return f"the run ended with {tool}, not with {final.name}"
        if state.report is None:
            return actions.validate()
        return state.validate(_terminal_of(state), {state.report.field: args.get(field)})

    workflow = Workflow(
        state.workflow.name, state.workflow.description, tools, (), final.name, state.workflow.system_prompt_template
    )
    user = state.report.ask(end and end.name) if state.report else state.user_message
    return ScenarioState(user, workflow, validate, _adapt_ideal(state, final.name, field))


def _adapt_ideal(state: ScenarioState, name: str, field: str) -> tuple[ToolCall, ...]:
    if not state.ideal or state.report is None:
        return (*state.ideal, call(name, **{field: "Done."})) if state.ideal else ()
    return (*state.ideal[:-1], call(name, **{field: (state.ideal[-1].args() or {}).get(state.report.field)}))


def _is_report(state: ScenarioState, name: str) -> bool:
    return name == RESPOND or (state.report is not None and name in state.workflow.terminal_tools)


def _terminal_of(state: ScenarioState) -> str:
    return next(iter(state.workflow.terminal_tools))


def _end_tool(end: _End) -> ToolDef:
    def accept_result(**args: Json) -> str:
        if not args.get(end.field):
            raise ValueError(f"{end.field} is missing")
        return "accepted"

    return ToolDef(spec(end.name, end.description, **{end.field: text("the result of the task")}), accept_result)


class _FirstAction:
    """Records the first successful call of a terminal tool: the one with which the scenario itself would end."""

    def __init__(self, state: ScenarioState) -> None:
        self._state = state
        self._first: tuple[str, Mapping[str, Json]] | None = None

    def observe(self, tool: ToolDef) -> ToolDef:
        """Return the tool; if it is terminal in the scenario, with its calls recorded."""
        does = tool.callable
        if tool.name not in self._state.workflow.terminal_tools or does is None:
            return replace(tool, prerequisites=())
        return ToolDef(tool.spec, self._record(tool.name, does))

    def _record(self, name: str, does: Does) -> Does:
        def give(**args: Any) -> Any:
            result = does(**args)
            self._first = self._first or (name, args)
            return result

        return give

    def validate(self) -> str | None:
        """Return what is wrong with the recorded call, or None if it is correct."""
        if self._first is None:
            return f"{' or '.join(sorted(self._state.workflow.terminal_tools))} was never called"
        return self._state.validate(*self._first)
