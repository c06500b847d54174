"""Serializes a run's state and outcome as JSON texts."""

from __future__ import annotations

from functools import cache
from json import JSONDecoder
from typing import Any, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.workflow.run import RunState, TerminalCall
from forge_proxy.workflows.runs.errors import RunNotReadable
from forge_proxy.workflows.runs.message_json import to_json

_PREFIX = '{"version":2,"submission":'
"""Increase the version for an incompatible change of the format."""
_STATE = ',"state":'
_FIELDS = (
    "attempts", "raw_response", "tool_name", "cause", "iterations", "completed_steps", "pending_steps",
    "terminal_tool", "violations", "missing_prereqs", "status", "tokens", "budget", "at",
)  # fmt: skip
"""Attributes of errors that are stored if present. Never headers: they may contain keys."""


@cache
def _state_adapter() -> TypeAdapter[RunState]:
    """Build the adapter on first use: most daemons start without a run."""
    return TypeAdapter(RunState)


class RunResult(BaseModel):
    """The result of a run: what its terminal tool returned."""

    kind: Literal["result"] = "result"
    tool: str = Field(description="The terminal tool that ended the run.")
    arguments: dict[str, Any] = Field(description="The arguments of the terminal call.")
    result: Any = Field(description="The terminal tool's result.")


class RunError(BaseModel):
    """Why a run ended without a result."""

    kind: Literal["error"] = "error"
    type: str = Field(description="The error's class name, such as MaxIterationsError.")
    message: str = Field(description="The error message.")
    fields: dict[str, Any] = Field(description="Further fields of the error, such as pending_steps.")


_OUTCOME: TypeAdapter[RunResult | RunError] = TypeAdapter(RunResult | RunError)


def write_text(submission: str, state: RunState) -> str:
    """Serialize a run's submission and state as the state of its job. What a step appends is at the end of the text."""
    return f"{_PREFIX}{submission}{_STATE}{_state_adapter().dump_json(state).decode()}}}"


def split_text(text: str) -> tuple[str, str]:
    """Return the submission and the state, each as JSON. Raises `RunNotReadable`."""
    if text.startswith(_PREFIX):
        _, end = JSONDecoder().raw_decode(text, len(_PREFIX))
        if text.startswith(_STATE, end):
            return text[len(_PREFIX) : end], text[end + len(_STATE) : -1]
    raise RunNotReadable("this run was stored by another version of forge-proxy and cannot be resumed by this version")


def read_state(text: str) -> RunState:
    """Parse the state of a run. Raises `RunNotReadable`."""
    try:
        return _state_adapter().validate_json(text)
    except ValidationError as error:
        raise RunNotReadable("the stored state of this run cannot be parsed") from error


def serialize_result(ended: TerminalCall) -> str:
    """Serialize the outcome of a completed run."""
    return RunResult(tool=ended.tool, arguments=dict(ended.args), result=ended.result).model_dump_json()


def serialize_error(error: Exception) -> str:
    """Serialize the outcome of a failed run. Details of internal errors are only in the log."""
    if not isinstance(error, ForgeError):
        name = "InternalError"
        return RunError(
            type=name, message="an error inside forge-proxy; its log has the details", fields={}
        ).model_dump_json()
    fields = {name: _to_plain(getattr(error, name)) for name in _FIELDS if hasattr(error, name)}
    return RunError(type=type(error).__name__, message=str(error), fields=fields).model_dump_json()


def read_outcome(text: str) -> RunResult | RunError:
    """Parse a stored outcome."""
    return _OUTCOME.validate_json(text)


def messages_to_json(state: RunState) -> list[dict[str, Json]]:
    """Return the messages of a run as JSON objects."""
    return [to_json(message) for message in state.messages]


def _to_plain(value: object) -> Any:
    return str(value) if isinstance(value, Exception) else to_jsonable_python(value, fallback=str)
