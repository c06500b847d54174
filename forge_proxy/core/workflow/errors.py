"""How a run can end without its terminal tool, each with what is needed to say why.

`ToolResolutionError` is the exception: it is a tool's to raise, and it ends nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.errors import ForgeError, InvalidRequest


class InvalidWorkflow(InvalidRequest, ValueError):
    """A workflow contradicts itself. `at` is the path of the field, as `tools.cancel_order.prerequisites[0]`."""


class ToolCallError(ForgeError):
    """The model made no valid tool call within the retry budget.

    `attempts` counts the model's answers since the last valid one; `raw_response` is the last of them.
    """

    def __init__(
        self, message: str, raw_response: str | None = None, cause: Exception | None = None, attempts: int = 1
    ) -> None:
        super().__init__(message)
        self.raw_response = raw_response
        self.cause = cause
        self.attempts = attempts


class ToolExecutionError(ForgeError):
    """A tool failed, and the model could not do better within the tool-error budget.

    `cause` is what the tool raised the last time; in words where it was raised elsewhere.
    """

    def __init__(self, tool_name: str, cause: Exception | str, attempts: int) -> None:
        said = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
        super().__init__(f"{tool_name} failed {attempts} times in a row, the last time with {said}")
        self.tool_name = tool_name
        self.cause = cause
        self.attempts = attempts


class ToolResolutionError(Exception):
    """Raised by a tool whose arguments are valid but name nothing that there is.

    The model is told the message; it counts as no error, and the step as not done.
    """

    def __init__(self, message: str, tool_name: str | None = None) -> None:
        super().__init__(message)
        self.tool_name = tool_name


class MaxIterationsError(ForgeError):
    """The model answered as often as it may, and no terminal tool was among its calls."""

    def __init__(self, iterations: int, completed_steps: Sequence[str], pending_steps: Sequence[str]) -> None:
        todo = f", still to be called: {', '.join(pending_steps)}" if pending_steps else ""
        super().__init__(f"no terminal tool was called in {iterations} iterations{todo}")
        self.iterations = iterations
        self.completed_steps = tuple(completed_steps)
        self.pending_steps = tuple(pending_steps)


class StepEnforcementError(ForgeError):
    """The model went on calling a terminal tool before the required steps, after every nudge there is."""

    def __init__(self, terminal_tool: str, attempts: int, pending_steps: Sequence[str]) -> None:
        super().__init__(f"{terminal_tool} was called {attempts} times before {', '.join(pending_steps)}")
        self.terminal_tool = terminal_tool
        self.attempts = attempts
        self.pending_steps = tuple(pending_steps)


class PrerequisiteError(ForgeError):
    """The model went on calling a tool before what it needs."""

    def __init__(self, tool_name: str, violations: int, missing_prereqs: Sequence[str]) -> None:
        super().__init__(f"{tool_name} was called {violations} times before {', '.join(missing_prereqs)}")
        self.tool_name = tool_name
        self.violations = violations
        self.missing_prereqs = tuple(missing_prereqs)


class StreamError(ForgeError):
    """The stream of an `LLMClient` ended without its FINAL chunk."""

    def __init__(self, message: str = "the stream ended without a FINAL chunk") -> None:
        super().__init__(message)
