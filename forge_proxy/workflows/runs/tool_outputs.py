"""What callers found out by executing tools themselves, and what becomes of a run by it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ConfigDict, Field

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.messages import MessageType
from forge_proxy.core.workflow.run import Batch, RunState, ToolOutcome, executed
from forge_proxy.workflows.runs.errors import RunConflict
from forge_proxy.workflows.runs.storage_limits import StorableModel, StoredJson
from forge_proxy.workflows.tools import told

_WAYS = ("output", "error", "unresolved")


class ToolOutput(StorableModel):
    """What came of one call: exactly one of output, error and unresolved."""

    model_config = ConfigDict(extra="forbid")

    tool_call_id: str = Field(description="Which call.")
    output: StoredJson = Field(default=None, description="Its result: text is told as it is, anything else as JSON.")
    error: str | None = Field(default=None, description="Why the tool failed; it counts against max_tool_errors.")
    unresolved: str | None = Field(
        default=None, description="What it did not find; the model is told, and it is no error and no step done."
    )

    def outcome(self, at: str) -> ToolOutcome:
        """As the runner has it. Raises `InvalidRequest`."""
        said = [way for way in _WAYS if way in self.model_fields_set]
        if len(said) != 1:
            raise InvalidRequest(
                at, f"expected exactly one of {', '.join(_WAYS)}; there is {', '.join(said) or 'none'}"
            )
        if said == ["output"]:
            return told(self.output)
        text = self.error if said == ["error"] else self.unresolved
        if text is None:
            raise InvalidRequest(f"{at}.{said[0]}", "expected text")
        return ToolOutcome.failed(text) if said == ["error"] else ToolOutcome.soft(text)


def apply(state: RunState, outputs: Sequence[ToolOutput], *, waiting: bool) -> tuple[RunState, list[ToolOutput]]:
    """The run with these outcomes, and which of them are new: those it has already are passed over.

    `waiting` is whether the run waits for outputs. Raises `InvalidRequest` for a call that there is not, `RunConflict`
    for one whose outcome is another already, or where the run does not wait.
    """
    new: list[ToolOutput] = []
    for place, output in enumerate(outputs):
        at = f"outputs[{place}]"
        outcome = output.outcome(at)
        if any(output.tool_call_id == other.tool_call_id for other in outputs[:place]):
            raise InvalidRequest(f"{at}.tool_call_id", f"{output.tool_call_id!r} is there twice")
        batch = state.batch or Batch((), {})
        index = next((i for i in batch.open if batch.calls[i].id == output.tool_call_id), None)
        if index is not None and waiting:
            state = executed(state, index, outcome)
            new.append(output)
            continue
        before = _text_of(state, output.tool_call_id)
        if before is None and index is None:
            raise InvalidRequest(f"{at}.tool_call_id", f"no call {output.tool_call_id!r} waits for an output")
        if before != outcome.text:
            why = "the run does not wait for outputs now" if before is None else "it has another output already"
            raise RunConflict(f"{at}.tool_call_id: {output.tool_call_id!r}: {why}")
    return state, new


def _text_of(state: RunState, call_id: str) -> str | None:
    """What the model was told of a call, or is going to be."""
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
