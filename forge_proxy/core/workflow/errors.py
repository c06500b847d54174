"""The errors with which a run ends before its terminal tool, each with the data that explains it.

`ToolResolutionError` is different: tools raise it, and it does not end the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.errors import ForgeError, InvalidRequest


class InvalidWorkflow(InvalidRequest, ValueError):
    """A workflow is inconsistent. `at` is the path of the field, such as `tools.cancel_order.prerequisites[0]`."""


class ToolCallError(ForgeError):
    """The model made no valid tool call within the retry limit.

    `attempts` counts the model's responses since the last valid one; `raw_response` is the last of them.
    """

    def __init__(
        self, message: str, raw_response: str | None = None, cause: Exception | None = None, attempts: int = 1
    ) -> None:
        super().__init__(message)
        self.raw_response = raw_response
        self.cause = cause
        self.attempts = attempts


class ToolExecutionError(ForgeError):
    """A tool failed more often in a row than the tool-error limit allows.

    `cause` is the last exception of the tool, or its text if another process raised it.
    """

    def __init__(self, tool_name: str, cause: Exception | str, attempts: int) -> None:
        description = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
        super().__init__(f"{tool_name} failed {attempts} times in a row, the last time with {description}")
        self.tool_name = tool_name
        self.cause = cause
        self.attempts = attempts


class ToolResolutionError(Exception):
    """Raised by a tool if its arguments are valid but refer to an object that does not exist.

    The model receives the message. The call counts neither as an error nor as a completed step.
    """

    def __init__(self, message: str, tool_name: str | None = None) -> None:
        super().__init__(message)
        self.tool_name = tool_name


class MaxIterationsError(ForgeError):
    """The model reached the iteration limit without calling a terminal tool."""

    def __init__(self, iterations: int, completed_steps: Sequence[str], pending_steps: Sequence[str]) -> None:
        todo = f", still to be called: {', '.join(pending_steps)}" if pending_steps else ""
        super().__init__(f"no terminal tool was called in {iterations} iterations{todo}")
        self.iterations = iterations
        self.completed_steps = tuple(completed_steps)
        self.pending_steps = tuple(pending_steps)


class StepEnforcementError(ForgeError):
    """The model kept calling a terminal tool before the required steps, despite all nudges."""

    def __init__(self, terminal_tool: str, attempts: int, pending_steps: Sequence[str]) -> None:
        super().__init__(f"{terminal_tool} was called {attempts} times before {', '.join(pending_steps)}")
        self.terminal_tool = terminal_tool
        self.attempts = attempts
        self.pending_steps = tuple(pending_steps)


class PrerequisiteError(ForgeError):
    """The model kept calling a tool before its prerequisites."""

    def __init__(self, tool_name: str, violations: int, missing_prereqs: Sequence[str]) -> None:
        super().__init__(f"{tool_name} was called {violations} times before {', '.join(missing_prereqs)}")
        self.tool_name = tool_name
        self.violations = violations
        self.missing_prereqs = tuple(missing_prereqs)


class StreamError(ForgeError):
    """The stream of an `LLMClient` ended without its FINAL chunk."""

    def __init__(self, message: str = "the stream ended without a FINAL chunk") -> None:
        super().__init__(message)
