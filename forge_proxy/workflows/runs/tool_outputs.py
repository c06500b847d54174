"""Applies tool outputs that clients post to the state of a run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ConfigDict, Field

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.messages import MessageType
from forge_proxy.core.workflow.run import Batch, RunState, ToolOutcome, apply_outcome
from forge_proxy.jobs.storage_limits import StorableModel, StoredJson
from forge_proxy.workflows.runs.errors import RunConflict
from forge_proxy.workflows.tools import to_tool_outcome

_KINDS = ("output", "error", "unresolved")


class ToolOutput(StorableModel):
    """The outcome of one call: exactly one of output, error and unresolved."""

    model_config = ConfigDict(extra="forbid")

    tool_call_id: str = Field(description="The id of the call.")
    output: StoredJson = Field(
        default=None, description="The result: text reaches the model unchanged, anything else as JSON."
    )
    error: str | None = Field(default=None, description="Why the tool failed; it counts against max_tool_errors.")
    unresolved: str | None = Field(
        default=None,
        description="What the tool did not find. The model receives it; it counts neither as an error nor as a"
        " completed step.",
    )

    def to_outcome(self, at: str) -> ToolOutcome:
        """Convert to the runner's outcome. Raises `InvalidRequest`."""
        present = [kind for kind in _KINDS if kind in self.model_fields_set]
        if len(present) != 1:
            raise InvalidRequest(at, f"expected exactly one of {', '.join(_KINDS)}; got {', '.join(present) or 'none'}")
        if present == ["output"]:
            return to_tool_outcome(self.output)
        text = self.error if present == ["error"] else self.unresolved
        if text is None:
            raise InvalidRequest(f"{at}.{present[0]}", "expected text")
        return ToolOutcome.failed(text) if present == ["error"] else ToolOutcome.soft(text)


def apply_outputs(
    state: RunState, outputs: Sequence[ToolOutput], *, is_waiting: bool
) -> tuple[RunState, list[ToolOutput]]:
    """Return the state with these outcomes, and the outputs that are new; known ones are skipped.

    `is_waiting` is whether the run waits for outputs. Raises `InvalidRequest` for an unknown call, `RunConflict` if the
    call has a different outcome already or the run does not wait.
    """
    new: list[ToolOutput] = []
    for place, output in enumerate(outputs):
        at = f"outputs[{place}]"
        outcome = output.to_outcome(at)
        if any(output.tool_call_id == other.tool_call_id for other in outputs[:place]):
            raise InvalidRequest(f"{at}.tool_call_id", f"{output.tool_call_id!r} occurs twice")
        batch = state.batch or Batch((), {})
        index = next((i for i in batch.open if batch.calls[i].id == output.tool_call_id), None)
        if index is not None and is_waiting:
            state = apply_outcome(state, index, outcome)
            new.append(output)
            continue
        before = _find_result(state, output.tool_call_id)
        if before is None and index is None:
            raise InvalidRequest(f"{at}.tool_call_id", f"no call {output.tool_call_id!r} waits for an output")
        if before != outcome.text:
            why = "the run is not waiting for outputs" if before is None else "a different output was posted already"
            raise RunConflict(f"{at}.tool_call_id: {output.tool_call_id!r}: {why}")
    return state, new


def _find_result(state: RunState, call_id: str) -> str | None:
    """Return the result of a call as the model receives it; None if it has none."""
    if state.batch is not None:
        for place, outcome in state.batch.outcomes.items():
            if state.batch.calls[place].id == call_id:
                return outcome.text
    return next(
        (
            message.content
            for message in state.messages
            if message.tool_call_id == call_id and message.type is MessageType.TOOL_RESULT
        ),
        None,
    )
