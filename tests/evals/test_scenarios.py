"""Every scenario can be done in its ideal number of answers, and its validator knows wrong answers from right ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import Message, MessageType, ToolCall
from forge_proxy.evals.scenario import Scenario, ScenarioState
from forge_proxy.evals.scenarios import ALL, select_scenarios
from forge_proxy.workflows.runner import WorkflowRunner
from tests.evals.wrong import WRONG
from tests.fakes.said_client import SaidClient
from tests.folding import folded

every_scenario = pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
RUNS = range(20)
"""Enough runs to reach each terminal tool and wording of the scenarios that differ by the run."""


async def follow(
    scenario: Scenario, world: ScenarioState, script: Sequence[ToolCall]
) -> tuple[SaidClient, list[Message]]:
    """The client and the messages of a run in which the model makes these calls, one an answer."""
    client, said = SaidClient([[one] for one in script]), list[Message]()
    runner = WorkflowRunner(client, max_iterations=scenario.max_iterations, on_message=said.append)
    await runner.run(world.workflow, world.user_message)
    return client, said


def results(said: Sequence[Message]) -> list[str]:
    return [message.content for message in said if message.tool_call_id is not None]


def judged(world: ScenarioState, **changed: Json) -> str | None:
    """Return the fault of the ideal terminal call with some arguments changed."""
    last = world.ideal[-1]
    return world.validate(last.tool, {**(last.args() or {}), **changed})


@pytest.mark.long
@folded
@pytest.mark.parametrize(
    ("scenario", "run"),
    [(one, run) for one in ALL for run in (RUNS if one.quick else RUNS[:1])],
    ids=lambda value: value.name if isinstance(value, Scenario) else str(value),
)
async def test_the_ideal_run_completes_in_the_ideal_number_of_answers(scenario: Scenario, run: int) -> None:
    world = scenario.build(run)

    client, said = await follow(scenario, world, world.ideal)

    assert len(client.asked) == len(world.ideal) == scenario.ideal_iterations <= scenario.max_iterations
    errors = [told for told in results(said) if re.match(r"\[\w+Error\]", told)]
    assert len(errors) == (scenario.name == "quick_error_recovery")
    assert judged(world) is None


def test_each_scenario_has_wrong_answers() -> None:
    assert set(WRONG) == {scenario.name for scenario in ALL}


@pytest.mark.long
@folded
@pytest.mark.parametrize(
    ("scenario", "changed"),
    [(one, changed) for one in ALL for changed in WRONG.get(one.name, ())],
    ids=lambda value: value.name if isinstance(value, Scenario) else str(sorted(value)),
)
async def test_a_wrong_answer_is_refused_with_the_name_of_what_is_wrong(
    scenario: Scenario, changed: Mapping[str, Json]
) -> None:
    world = scenario.build(0)
    await follow(scenario, world, world.ideal)

    wrong = judged(world, **changed)

    assert wrong is not None
    assert any(field in wrong for field in changed)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("basic_2step", {"opens": "7:30 a.m.", "closes": "9:00 p.m."}),
        ("basic_2step", {"closes": "09:00 PM"}),
        ("sequential_3step", {"trend": "The level is rising.", "mean_cm": "182.5 cm"}),
        ("error_recovery", {"sailings": "six", "last": "10:10 p.m."}),
        ("argument_fidelity", {"entity_id": "42", "ends": "28 Feb 2033"}),
        ("argument_fidelity", {"ends": "February 28th, 2033"}),
        ("sequential_reasoning", {"left": "EUR 18,350.00"}),
        ("data_gap_recovery", {"offset_mm": "minus 2.5 mm"}),
        ("argument_transformation", {"price": "€ 213,26"}),
        ("supplier_deep_dive", {"weekly_cost": "$3,475.00"}),
        ("grounded_synthesis", {"people_hurt": "No people were hurt.", "architect": "not specified"}),
        ("grounded_synthesis", {"architect": "The sources do not mention one."}),
        ("compaction_chain_baseline", {"mineral": "Verdine poisoning", "dose_mg": "612 mg"}),
    ],
    ids=str,
)
async def test_a_correct_answer_in_other_words_is_accepted(name: str, changed: Mapping[str, Json]) -> None:
    (scenario,) = select_scenarios([name])
    world = scenario.build(0)
    await follow(scenario, world, world.ideal)

    assert judged(world, **changed) is None


@folded
@every_scenario
def test_a_terminal_call_without_its_arguments_is_refused(scenario: Scenario) -> None:
    world = scenario.build(0)

    assert world.validate(world.ideal[-1].tool, {})
    assert world.validate("no_such_tool", world.ideal[-1].args() or {})


@folded
@pytest.mark.parametrize(
    "scenario", [one for one in ALL if one.build(0).workflow.required_steps], ids=lambda scenario: scenario.name
)
async def test_ending_too_early_or_with_an_unknown_tool_is_refused_and_can_be_mended(scenario: Scenario) -> None:
    world = scenario.build(0)
    premature, unknown = world.ideal[-1], ToolCall.of("no_such_tool")

    _, said = await follow(scenario, world, [premature, unknown, *world.ideal])

    assert results(said)[0].startswith("[StepEnforcementError]")
    nudges = [message for message in said if message.type is MessageType.RETRY_NUDGE]
    assert "no_such_tool" in "".join(message.content for message in nudges)


@pytest.mark.long
@folded
@every_scenario
async def test_a_run_leaves_nothing_behind_for_the_next(scenario: Scenario) -> None:
    first, second = scenario.build(0), scenario.build(0)

    _, before = await follow(scenario, first, first.ideal)
    _, after = await follow(scenario, second, second.ideal)
    _, again = await follow(scenario, scenario.build(0), first.ideal)

    assert results(before) == results(after) == results(again)
    assert first.workflow.tools.keys() == second.workflow.tools.keys()


NAMES_AND_TAGS: dict[str, tuple[int | None, str]] = {
    "basic_2step": (2, "plumbing"),
    "sequential_3step": (3, "plumbing"),
    # One more than in forge's table: with two iterations kept, nothing can be cut before the fourth.
    "compaction_stress": (4, "plumbing compaction"),
    "error_recovery": (2, "plumbing"),
    "tool_selection": (3, "model_quality"),
    "argument_fidelity": (3, "model_quality"),
    "sequential_reasoning": (4, "model_quality"),
    "conditional_routing": (4, "model_quality reasoning"),
    "data_gap_recovery": (5, "model_quality reasoning"),
    "phase2_compaction": (6, "compaction reasoning"),
    "relevance_detection": (1, "model_quality"),
    "basic_2step_stateful": (2, "stateful plumbing"),
    "basic_2step_stateful_tre": (3, "stateful plumbing"),
    "sequential_3step_stateful": (3, "stateful plumbing"),
    "error_recovery_stateful": (2, "stateful plumbing"),
    "tool_selection_stateful": (3, "stateful model_quality"),
    "argument_fidelity_stateful": (3, "stateful model_quality"),
    "sequential_reasoning_stateful": (4, "stateful model_quality"),
    "conditional_routing_stateful": (4, "stateful model_quality reasoning"),
    "data_gap_recovery_stateful": (5, "stateful model_quality reasoning"),
    "compaction_stress_stateful": (4, "stateful compaction"),
    "phase2_compaction_stateful": (6, "stateful compaction reasoning"),
    "inventory_audit": (None, "stateful compaction"),
    "supplier_deep_dive": (None, "stateful compaction reasoning"),
    "relevance_detection_stateful": (1, "stateful model_quality"),
    **{
        name + variant: (None, "advanced_reasoning" + (" stateful" if variant else ""))
        for name in (
            "data_gap_recovery_extended", "argument_transformation", "inconsistent_api_recovery", "grounded_synthesis",
        )
        for variant in ("", "_stateful")
    },
    "compaction_chain_baseline": (10, "stateful"),
    "compaction_chain_p1": (10, "stateful compaction"),
    "compaction_chain_p2": (10, "stateful compaction"),
    "compaction_chain_p3": (10, "stateful compaction"),
}  # fmt: skip
"""As the seeds have them: ideal iterations where these are given, and tags."""


@folded
@pytest.mark.parametrize(("name", "wanted"), NAMES_AND_TAGS.items(), ids=NAMES_AND_TAGS)
def test_all_required_scenarios_exist(name: str, wanted: tuple[int | None, str]) -> None:
    ideal, tags = wanted

    (found,) = select_scenarios([name])

    assert ideal in {None, found.ideal_iterations}
    # A topic is an additional tag.
    assert found.tags - {"relevance"} == set(tags.split())


def test_what_is_there_beyond_is_the_quick_ones() -> None:
    beyond = [one for one in ALL if one.name not in NAMES_AND_TAGS]

    assert beyond == [one for one in ALL if one.quick] == list(select_scenarios(tags=["quick"]))
    assert 6 <= len(beyond) <= 12
    assert len({one.name for one in ALL}) == len(ALL)


def test_scenarios_are_found_by_names_and_tags() -> None:
    assert select_scenarios() == ALL
    assert [one.name for one in select_scenarios(["error_recovery", "basic_2step"])] == [
        "basic_2step",
        "error_recovery",
    ]
    assert {one.name for one in select_scenarios(tags=["relevance"])} == {
        "relevance_detection",
        "relevance_detection_stateful",
    }
    assert [one.name for one in select_scenarios(["basic_2step", "tool_selection"], ["plumbing"])] == ["basic_2step"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"names": ["basic_2steps"]}, "scenario: there is no 'basic_2steps'; did you mean basic_2step"),
        ({"names": ["basic_2step", "zzz"]}, "scenario: there is no 'zzz'; available: basic_2step, "),
        ({"tags": ["plumbin"]}, "tags: there is no 'plumbin'; did you mean plumbing?"),
        ({"names": ["basic_2step"], "tags": ["quick"]}, "tags: none of these scenarios has a tag of quick"),
    ],
)
def test_an_unknown_name_is_named_in_the_error(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told.replace("?", r"\?")):
        select_scenarios(**asked)


def test_runs_of_a_quick_scenario_are_different_prompts() -> None:
    for scenario in select_scenarios(tags=["quick"]):
        asked = [scenario.build(run).user_message for run in range(50)]

        assert len(set(asked)) >= (8 if scenario.name == "quick_no_tool" else 30), scenario.name
        assert asked == [scenario.build(run).user_message for run in range(50)]
