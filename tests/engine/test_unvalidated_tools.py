"""Tools with unusable schemas: their calls are delivered, and each set of them is reported once."""

from __future__ import annotations

import asyncio

import pytest
import structlog.testing

from forge_proxy.core.chat import ChatRequest, Schema, ToolSpec
from forge_proxy.core.guardrails import GuardPolicy, Switches, Turn, open_turn
from forge_proxy.engine.events import Event, ToolsUnvalidated
from forge_proxy.engine.unvalidated_tools import UnvalidatedTools
from forge_proxy.telemetry.logs import LogObserver
from tests.api.test_mistakes import ASK, WEATHER, both
from tests.fakes.says import Said
from tests.fakes.scripted import chat

NONSENSE: Schema = {"type": "nonsense"}


@both
async def test_a_tool_with_an_unusable_schema_can_be_called_and_is_reported(stream: bool) -> None:
    heard: list[Event] = []
    odd = {"type": "function", "function": {"name": "odd", "parameters": NONSENSE}}
    said = Said(calls=(("odd", '{"a": 1}'),))

    answer = await chat([said], {**ASK, "tools": [WEATHER, odd]}, stream=stream, heard=heard)

    assert answer.calls == [("odd", {"a": 1})]
    assert [event.tools for event in heard if isinstance(event, ToolsUnvalidated)] == [("odd",)]


async def test_each_set_of_tools_is_reported_once() -> None:
    seen = UnvalidatedTools()

    reported = [await seen.find_unreported(turn(a=NONSENSE, b=True)) for _ in range(2)]

    assert reported == [("a",), ()]
    assert await seen.find_unreported(turn(a=NONSENSE, b=NONSENSE)) == ("a", "b")
    assert await seen.find_unreported(turn(a=True)) == ()


async def test_nothing_is_reported_if_calls_are_not_validated() -> None:
    policy = GuardPolicy(enabled=Switches(validate=False))

    assert await UnvalidatedTools().find_unreported(turn(policy, a=NONSENSE)) == ()


@pytest.mark.parametrize(
    ("schemas", "slices"),
    [
        ([{"type": "object", "title": f"slices {n}"} for n in range(512)], 512 // 32 - 1),
        ([{"title": f"slices {n}", "pattern": r"(\p{L}{100}){100}"} for n in range(8)], 7),
    ],
    ids=["many", "large patterns"],
)
async def test_schemas_are_compiled_in_slices(schemas: list[Schema], slices: int) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(others())
    await UnvalidatedTools().find_unreported(turn(None, **{f"tool_{n}": schema for n, schema in enumerate(schemas)}))
    beside.cancel()

    assert turns >= slices


def test_the_log_warning_names_the_tools() -> None:
    with structlog.testing.capture_logs() as logged:
        LogObserver()(ToolsUnvalidated("r", ("a", "b")))

    (line,) = logged
    assert (line["log_level"], line["tools"]) == ("warning", ("a", "b"))


def turn(policy: GuardPolicy | None = None, **schemas: Schema) -> Turn:
    tools = tuple(ToolSpec(name, schema) for name, schema in schemas.items())
    opened = open_turn(ChatRequest({}, tools=tools), policy or GuardPolicy(), request_id="r", nudge_text=True)
    assert opened
    return opened
