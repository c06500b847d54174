"""What is stored of a run, as JSON texts: its state, its outcome, and how an error is told."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.workflow.run import RunState, TerminalCall
from forge_proxy.workflows.runs.errors import NotReadable
from forge_proxy.workflows.runs.message_json import written

_VERSION = 1
"""Of the form of a stored state. Another one is needed for a change that this form cannot be read as."""
_FIELDS = (
    "attempts", "raw_response", "tool_name", "cause", "iterations", "completed_steps", "pending_steps",
    "terminal_tool", "violations", "missing_prereqs", "status", "tokens", "budget", "at",
)  # fmt: skip
"""What errors have to say beside their message, whichever of it they have. Never headers: they may hold keys."""


@cache
def _state() -> TypeAdapter[RunState]:
    """Made when it is first needed: most daemons start without a run."""
    return TypeAdapter(RunState)


class RunResult(BaseModel):
    """The result of a run: what its terminal tool gave back."""

    kind: Literal["result"] = "result"
    tool: str = Field(description="The terminal tool that ended the run.")
    arguments: dict[str, Any] = Field(description="What it was called with.")
    result: Any = Field(description="What it gave back.")


class RunError(BaseModel):
    """Why a run ended without a result."""

    kind: Literal["error"] = "error"
    type: str = Field(description="The error's name, such as MaxIterationsError.")
    message: str = Field(description="What happened.")
    fields: dict[str, Any] = Field(description="What the error has to say beside that, such as pending_steps.")


_OUTCOME: TypeAdapter[RunResult | RunError] = TypeAdapter(RunResult | RunError)


def write_state(state: RunState) -> str:
    """A state as JSON text."""
    return f'{{"version":{_VERSION},"state":{_state().dump_json(state).decode()}}}'


def read_state(text: str) -> RunState:
    """A stored state. Raises `NotReadable`."""
    prefix = f'{{"version":{_VERSION},"state":'
    if not text.startswith(prefix):
        raise NotReadable("this run was stored by another version of forge-proxy, and cannot be gone on with here")
    try:
        return _state().validate_json(text[len(prefix) : -1])
    except ValidationError as error:
        raise NotReadable("what is stored of this run cannot be read") from error


def result_of(ended: TerminalCall) -> str:
    """The outcome of a run that came to its end, as JSON text."""
    return RunResult(tool=ended.tool, arguments=dict(ended.args), result=ended.result).model_dump_json()


def failure_of(error: Exception) -> str:
    """The outcome of a run that failed, as JSON text. Faults of ours say no more than that: the log has them."""
    if not isinstance(error, ForgeError):
        name = "InternalError"
        return RunError(
            type=name, message="an error inside forge-proxy; its log has the details", fields={}
        ).model_dump_json()
    fields = {name: _plain(getattr(error, name)) for name in _FIELDS if hasattr(error, name)}
    return RunError(type=type(error).__name__, message=str(error), fields=fields).model_dump_json()


def read_outcome(text: str) -> RunResult | RunError:
    """A stored outcome."""
    return _OUTCOME.validate_json(text)


def messages_of(state: RunState) -> list[dict[str, Json]]:
    """The messages of a run as JSON."""
    return [written(message) for message in state.messages]


def _plain(value: object) -> Any:
    return str(value) if isinstance(value, Exception) else to_jsonable_python(value, fallback=str)
