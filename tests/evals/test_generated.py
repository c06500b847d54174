"""The generated tasks: solvable by clients of each kind, the same each time, and wrong if a step is missing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from forge_proxy.core.guardrails.terminal_tools import find_terminal_tools
from forge_proxy.core.messages import Message
from forge_proxy.evals.clients import ClientKind, adapt_scenario
from forge_proxy.evals.scenario import Scenario
from forge_proxy.evals.scenarios import ALL, select_scenarios
from forge_proxy.evals.scenarios.generated.families import FAMILIES
from forge_proxy.evals.scenarios.generated.tasks import RUNS, SCENARIOS
from tests.evals.test_scenarios import follow
from tests.folding import folded

FAILS_ONCE = {"generated_transient", "generated_alternative"}
BY_NAME = {one.name: one for one in SCENARIOS}


def results(said: Sequence[Message]) -> list[str]:
    return [message.content for message in said if message.tool_call_id is not None]


@pytest.mark.long
@folded
@pytest.mark.parametrize(
    ("scenario", "kind", "run"),
    [
        (one, kind, run)
        for one in SCENARIOS
        for kind, runs in (("scenario", range(RUNS)), ("text", (0, 7)), ("terminal", range(5)))
        for run in runs
    ],
    ids=str,
)
async def test_the_ideal_run_is_right_and_has_the_ideal_length(scenario: Scenario, kind: ClientKind, run: int) -> None:
    state = adapt_scenario(scenario.build(run), kind, f"{scenario.name} {run}")

    _, said = await follow(scenario, state, state.ideal)

    last = state.ideal[-1]
    assert len(state.ideal) == scenario.ideal_iterations
    assert state.validate(last.tool, last.args() or {}) is None
    assert sum(told.startswith("[Tool") for told in results(said)) == (scenario.name in FAILS_ONCE)


def test_there_are_at_least_300_different_tasks_and_each_scenario_meets_every_family() -> None:
    assert len(FAMILIES) >= 40
    assert len(SCENARIOS) * RUNS >= 300
    for scenario in SCENARIOS:
        states = [scenario.build(run) for run in range(RUNS)]
        tools = {tool for state in states for tool in state.workflow.tools}
        assert sum(any(family.noun in tool for tool in tools) for family in FAMILIES) == len(FAMILIES), scenario.name
        if scenario.name != "generated_greeting":
            assert len({(state.user_message, state.ideal) for state in states}) == RUNS, scenario.name


def test_no_two_families_share_a_tool() -> None:
    tools = [tool.name for family in FAMILIES for tool in (family.finder, family.user)]

    assert len(tools) == len(set(tools))


@folded
@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - {"generated_greeting"}))
def test_a_report_without_the_calls_is_wrong(name: str) -> None:
    state = BY_NAME[name].build(0)

    assert "was never called" in str(state.validate("respond", state.ideal[-1].args() or {}))


def test_a_greeting_that_is_answered_with_a_call_is_wrong() -> None:
    state = BY_NAME["generated_greeting"].build(0)
    find = next(tool for tool in state.workflow.tools.values() if tool.name != "respond")
    assert find.callable is not None

    find.callable()

    assert "although nothing asks for it" in str(state.validate("respond", {"message": "Hello!"}))


async def test_a_polled_result_is_pending_once_and_then_stays() -> None:
    scenario = BY_NAME["generated_polling"]
    state = scenario.build(0)
    poll = state.ideal[0]

    _, said = await follow(scenario, state, [poll, poll, poll, state.ideal[-1]])

    assert ["pending" in result for result in results(said)[:3]] == [True, False, False]


def test_the_name_and_the_tag_select_them() -> None:
    assert select_scenarios(["generated"]) == select_scenarios(tags=["generated"]) == SCENARIOS
    assert select_scenarios(["generated_polling"]) == (BY_NAME["generated_polling"],)
    assert select_scenarios() == ALL


@pytest.mark.parametrize("run", range(12))
def test_the_terminal_tool_of_a_client_is_recognized(run: int) -> None:
    state = adapt_scenario(BY_NAME["generated_single"].build(run), "terminal", f"key {run}")

    found = find_terminal_tools([tool.spec for tool in state.workflow.tools.values()])

    assert {tool.name for tool in found} == set(state.workflow.terminal_tools)
