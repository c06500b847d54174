"""The error of a cancelled run. Not in `errors`, because it contains the steps, whose module imports `errors`."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.messages import Message
from forge_proxy.core.workflow.steps import Steps


class WorkflowCancelledError(ForgeError):
    """The run was cancelled. It can be resumed with `messages`, in which every call has a result, and `steps`."""

    def __init__(self, messages: Sequence[Message], steps: Steps, iteration: int) -> None:
        super().__init__(f"cancelled after {iteration} iterations")
        self.messages = tuple(messages)
        self.steps = steps
        self.iteration = iteration

    @property
    def completed_steps(self) -> tuple[str, ...]:
        """The tools that have succeeded."""
        return self.steps.completed
