"""Executes the tools of a workflow that are Python callables."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from pydantic_core import PydanticSerializationError, to_json

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.definition import Workflow
from forge_proxy.core.workflow.errors import ToolResolutionError
from forge_proxy.core.workflow.run import ToolOutcome


class CallExecutor(Protocol):
    """Executes the tool calls of one run."""

    async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
        """Execute a call and return its outcome; None if it is executed elsewhere and its outcome is posted later.

        A failure of the tool is an outcome too and never raises. `key` is the idempotency key of this call, in
        printable ASCII: a run that was killed before it stored the outcome retries the call under the same key.
        """
        ...


class CallableTools:
    """`CallExecutor` of the callables of a workflow's tools.

    Async functions run on the event loop, others in a thread, so that they do not block it.
    """

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow

    async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
        """Execute a call and return its outcome.

        If calls are not validated, the tool may not exist or the arguments may not be an object: such a call fails like
        a tool that fails.
        """
        tool, args = self._workflow.tools.get(call.tool), call.args()
        if tool is None:
            return ToolOutcome.failed(f"there is no tool {call.tool}")
        if args is None:
            return ToolOutcome.failed(f"the arguments of {call.tool} are not a JSON object")
        function = tool.callable
        if function is None:
            return None

        async def invoke() -> object:
            if inspect.iscoroutinefunction(function):
                return await function(**args)
            result = await asyncio.to_thread(_call_sync, function, args)
            return await result if inspect.isawaitable(result) else result

        return await invoke_tool(invoke)


def _call_sync(function: Callable[..., object], args: JsonObject) -> object:
    try:
        return function(**args)
    except StopIteration as error:  # a future rejects it: awaiting the thread would never end
        raise RuntimeError("the tool raised StopIteration") from error


async def invoke_tool(invoke: Callable[[], Awaitable[object]]) -> ToolOutcome:
    """Call a tool and return its outcome, whatever it raises."""
    try:
        outcome = to_tool_outcome(await invoke())
    except ToolResolutionError as error:
        outcome = ToolOutcome.soft(str(error))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Something that the tool awaited was cancelled, not the run.
        outcome = ToolOutcome.failed("CancelledError: a task that the tool awaited was cancelled")
    except Exception as error:  # noqa: BLE001 - a tool may raise anything; the model receives the error
        outcome = ToolOutcome.failed(f"{type(error).__name__}: {error}", error)
    return replace(outcome, text=_replace_surrogates(outcome.text))


def to_tool_outcome(result: object) -> ToolOutcome:
    """Convert a tool's result to an outcome: text unchanged, anything else as JSON.

    A result that JSON cannot represent is an error of the tool: a model should not see its `repr`.
    """
    if isinstance(result, str):
        return ToolOutcome(result, value=result)
    try:
        written = to_json(result)
    except PydanticSerializationError as error:
        return ToolOutcome.failed(f"the result cannot be written as JSON: {error}")
    return ToolOutcome(written.decode(), value=result)


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which Python uses in file names that are not UTF-8 and JSON cannot represent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
