"""The generated tasks: solvable by construction, the same each time, and wrong if a step is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from forge_proxy.core.messages import ToolCall
from forge_proxy.evals.scenario import Scenario
from forge_proxy.evals.scenarios import ALL, select_scenarios
from forge_proxy.evals.scenarios.generated.families import FAMILIES
from forge_proxy.evals.scenarios.generated.tasks import SCENARIOS, interleave
from tests.evals.test_scenarios import follow
from tests.folding import folded

KINDS = sorted({one.name.split(f"_{FAMILIES[0].name}")[0] for one in SCENARIOS if one.name.endswith(FAMILIES[0].name)})


def kind_of(kind: str) -> list[Scenario]:
    return [one for one in SCENARIOS if one.name.startswith(kind) and kind in one.tags]


@folded
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
async def test_the_ideal_run_is_right_and_has_the_ideal_length(scenario: Scenario) -> None:
    state = scenario.build(1)

    await follow(scenario, state, state.ideal)

    last = state.ideal[-1]
    assert len(state.ideal) == scenario.ideal_iterations
    assert state.validate(last.tool, last.args() or {}) is None


def test_there_are_at_least_300_tasks_over_40_families_in_ten_kinds() -> None:
    assert len(SCENARIOS) == len({one.name for one in SCENARIOS}) >= 300
    assert len({family.name for family in FAMILIES}) >= 40
    assert len(KINDS) == 10


def test_no_two_families_share_a_tool() -> None:
    tools = [tool for one in FAMILIES for tool in (one.find, one.search, one.change, one.status)]

    assert len(tools) == len(set(tools))


@folded
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "greeting" not in kind and "from_text" not in kind])
def test_a_report_without_the_calls_is_wrong(kind: str) -> None:
    for scenario in kind_of(kind):
        state = scenario.build(0)

        assert "was not called" in str(state.validate("respond", state.ideal[-1].args() or {}))


def test_a_change_that_nobody_asked_for_is_wrong() -> None:
    for scenario in kind_of("generated_greeting"):
        state = scenario.build(0)
        family = next(one for one in FAMILIES if scenario.name.endswith(f"_{one.name}"))
        change = state.workflow.tools[family.change].callable
        assert change is not None

        with pytest.raises(ValueError, match="nothing found"):
            change(**{family.id: "X-1", family.value: family.values[0]})

        assert "although nothing asks for it" in str(state.validate("respond", {"message": "Hello!"}))


async def test_a_polled_status_is_pending_twice_and_stays_done() -> None:
    (scenario,) = select_scenarios(["generated_polling_git"])
    state = scenario.build(0)
    poll = state.ideal[0]

    _, said = await follow(scenario, state, [poll, poll, poll, poll, state.ideal[-1]])

    results = [message.content for message in said if message.tool_call_id is not None]
    assert ["pending" in result for result in results[:4]] == [True, True, False, False]


async def test_a_tool_that_fails_once_works_the_second_time() -> None:
    (scenario,) = select_scenarios(["generated_transient_git"])
    state = scenario.build(0)

    _, said = await follow(scenario, state, state.ideal)

    first, second = [message.content for message in said if message.tool_call_id is not None][:2]
    assert "timeout" in first
    assert "timeout" not in second


def test_runs_differ_and_are_the_same_in_every_process() -> None:
    (scenario,) = select_scenarios(["generated_look_up_and_act_bank"])
    load = f"from forge_proxy.evals.scenarios import select_scenarios; (one,) = select_scenarios(['{scenario.name}'])"
    code = f"{load}; print(one.build(3).ideal)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()

    assert shown == str(scenario.build(3).ideal)
    assert len({str(scenario.build(run).ideal) for run in range(20)}) == 20


def test_the_name_and_the_tag_select_them_and_a_few_are_of_every_kind() -> None:
    assert select_scenarios(["generated"]) == select_scenarios(tags=["generated"]) == interleave(None)
    assert len(select_scenarios(tags=["generated_polling"])) == len(FAMILIES)
    assert len({next(iter(one.tags - {"generated"})) for one in interleave(10)}) == 10
    assert len({one.name.rsplit("_", 1)[1] for one in interleave(100)}) >= 10
    assert select_scenarios() == ALL


def test_other_scenarios_do_not_load_them() -> None:
    load = "import sys; from forge_proxy.evals.scenarios import select_scenarios; select_scenarios(tags=['quick'])"
    code = f"{load}; print([name for name in sys.modules if 'generated' in name])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()

    assert shown == "[]"


def test_calls_of_an_ideal_run_are_calls_of_offered_tools() -> None:
    for scenario in SCENARIOS:
        state = scenario.build(2)
        calls: tuple[ToolCall, ...] = state.ideal
        assert {one.tool for one in calls} <= set(state.workflow.tools), scenario.name


async def test_search_does_what_find_does_unless_it_is_the_alternative() -> None:
    (scenario,) = select_scenarios(["generated_look_up_git"])
    state, family = scenario.build(0), next(one for one in FAMILIES if one.name == "git")
    searched = ToolCall(family.search, state.ideal[0].arguments)

    _, said = await follow(scenario, state, [searched, state.ideal[0], state.ideal[-1]])

    assert family.detail in next(message.content for message in said if message.tool_call_id is not None)
