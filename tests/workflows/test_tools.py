"""Tools may raise and return anything: the run continues, and the model receives valid text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow import ToolDef, Workflow
from forge_proxy.core.workflow.errors import ToolResolutionError
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.workflows.tools import CallableTools


async def execute(function: Callable[..., Any]) -> ToolOutcome:
    tool = ToolDef(ToolSpec.from_json_schema("act", "", {"type": "object"}), function)
    flow = Workflow("w", "", {"act": tool}, [], "act", "Help.")
    outcome = await asyncio.wait_for(CallableTools(flow).execute(ToolCall("act"), "key"), 5)
    assert outcome is not None
    return outcome


async def test_a_tool_that_raises_stop_iteration_fails_without_hanging() -> None:
    outcome = await execute(lambda: next(number for number in (1, 2) if number > 2))

    assert (outcome.status, outcome.text) == ("error", "[ToolError] RuntimeError: the tool raised StopIteration")


async def test_a_cancelled_task_inside_a_tool_is_an_error_of_the_tool() -> None:
    async def act() -> None:
        gone = asyncio.create_task(asyncio.sleep(9))
        gone.cancel()
        await gone

    outcome = await execute(act)

    assert outcome.status == "error"
    assert "CancelledError" in outcome.text


async def test_cancelling_the_run_is_not_an_error_of_the_tool() -> None:
    began = asyncio.Event()

    async def act() -> None:
        began.set()
        await asyncio.sleep(9)

    running = asyncio.create_task(execute(act))
    await began.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running


def raise_unresolved() -> str:
    raise ToolResolutionError("no file \udcff")


def raise_error() -> str:
    raise ValueError("no file \udcff")


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda: "a\udcff.txt \U0001f600", "a\ufffd.txt \U0001f600"),
        (lambda: "\ud83d\ude00", "\U0001f600"),
        (raise_unresolved, "no file \ufffd"),
        (raise_error, "[ToolError] ValueError: no file \ufffd"),
    ],
)
async def test_lone_surrogates_in_a_result_are_replaced(function: Callable[[], str], text: str) -> None:
    assert (await execute(function)).text == text
