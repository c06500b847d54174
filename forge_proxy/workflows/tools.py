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


class Executor(Protocol):
    """Executes calls."""

    async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
        """What came of a call; None for one that is executed elsewhere, whose outcome is told later. Raises nothing
        that is the tool's fault: that is an outcome too.

        `key` names this call of this run, in printable ASCII. A run that was killed before the outcome was stored asks
        again under the same key, so that a tool that keeps its keys does nothing twice.
        """
        ...


class CallableTools:
    """`Executor` of the callables that a workflow's tools bring along.

    Async ones run in the loop, the others in a thread, so that they block nobody.
    """

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow

    async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
        """What came of the call. One to no tool, or with arguments that are no object, only comes where calls are not
        validated: it fails like a tool that fails.
        """
        tool, args = self._workflow.tools.get(call.tool), call.args()
        if tool is None:
            return ToolOutcome.failed(f"there is no tool {call.tool}")
        if args is None:
            return ToolOutcome.failed(f"the arguments of {call.tool} are no JSON object")
        function = tool.callable
        if function is None:
            return None

        async def invoke() -> object:
            if inspect.iscoroutinefunction(function):
                return await function(**args)
            result = await asyncio.to_thread(_called, function, args)
            return await result if inspect.isawaitable(result) else result

        return await outcome_of(invoke)


def _called(function: Callable[..., object], args: JsonObject) -> object:
    try:
        return function(**args)
    except StopIteration as error:  # no future takes one: whoever waits for the thread would wait for ever
        raise RuntimeError("the tool raised StopIteration") from error


async def outcome_of(invoke: Callable[[], Awaitable[object]]) -> ToolOutcome:
    """What came of a tool, whatever it raises."""
    try:
        outcome = told(await invoke())
    except ToolResolutionError as error:
        outcome = ToolOutcome.soft(str(error))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Something that the tool waited for was cancelled, and not the run.
        outcome = ToolOutcome.failed("CancelledError: what the tool waited for was cancelled")
    except Exception as error:  # noqa: BLE001 - a tool may raise anything, and the model is told
        outcome = ToolOutcome.failed(f"{type(error).__name__}: {error}", error)
    return replace(outcome, text=_sendable(outcome.text))


def told(result: object) -> ToolOutcome:
    """A tool's result as the model is told it: text as it is, anything else as JSON.

    What JSON has no form for is an error of the tool's: its `repr` is nothing a model should see.
    """
    if isinstance(result, str):
        return ToolOutcome(result, value=result)
    try:
        written = to_json(result)
    except PydanticSerializationError as error:
        return ToolOutcome.failed(f"the result cannot be written as JSON: {error}")
    return ToolOutcome(written.decode(), value=result)


def _sendable(text: str) -> str:
    """The text without halves of characters, as Python has them in names of files that are no UTF-8: JSON has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
