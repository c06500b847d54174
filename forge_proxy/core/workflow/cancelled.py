"""How a run ends that was cancelled: with all that is needed to go on with it."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.messages import Message
from forge_proxy.core.workflow.steps import Steps


class WorkflowCancelledError(ForgeError):
    """The run was cancelled. `messages` is its history, in which every call has a result, and `steps` what has been
    done: with both it can be gone on with.
    """

    def __init__(self, messages: Sequence[Message], steps: Steps, iteration: int) -> None:
        super().__init__(f"cancelled after {iteration} iterations")
        self.messages = tuple(messages)
        self.steps = steps
        self.iteration = iteration

    @property
    def completed_steps(self) -> tuple[str, ...]:
        """The tools that had succeeded."""
        return self.steps.completed
