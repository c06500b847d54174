"""In stateful scenarios, tool results and the validation depend on earlier calls."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import Message, ToolCall
from forge_proxy.evals.scenario import ScenarioState
from forge_proxy.evals.scenarios import select_scenarios
from forge_proxy.workflows.runner import WorkflowRunner
from tests.fakes.said_client import SaidClient

Call = tuple[str, dict[str, Json]]

REFUSED: dict[str, tuple[Call, str]] = {
    "basic_2step_stateful": (("get_opening_hours", {"place": "Zoo"}), "no place is registered as 'Zoo'"),
    "basic_2step_stateful_tre": (("get_opening_hours", {"place": "Duck Pond"}), "Harbour Pool (called Duck Pond"),
    "sequential_3step_stateful": (("analyze_readings", {"dataset_id": "DS-17"}), "no dataset 'DS-17'; fetched so far"),
    "error_recovery_stateful": (("get_sailings", {"day": "9 May 2031"}), "[ToolError] TypeError: day has to be"),
    "tool_selection_stateful": (("check_part_stock", {"part": "KX-204"}), "no part 'KX-204'"),
    "argument_fidelity_stateful": (("get_entity", {"entity_id": 42}), "no firm with the id 42 was found"),
    "sequential_reasoning_stateful": (("get_team", {"team_id": "Ida Renner"}), "no team has the id 'Ida Renner'"),
    "conditional_routing_stateful": (("get_error_log", {"service": "pricing"}), "the log of 'pricing' is closed"),
    "data_gap_recovery_stateful": (("read_scan", {"sheet": 114}), "[ToolError] ValueError: sheet 114 cannot be lent"),
    "compaction_stress_stateful": (("count_cargo", {"manifest": "M-2214"}), "no manifest 'M-2214' is known"),
    "phase2_compaction_stateful": (("audit_supplier", {"supplier": "Fisk", "notes": ""}), "no supplier 'Fisk'"),
    "inventory_audit": (("correct_book", {"item": "rope", "count": -1}), "[ToolError] ValueError: count is -1"),
    "supplier_deep_dive": (("get_incidents", {"contract_id": "CT-438"}), "no contract 'CT-438' was opened"),
    "data_gap_recovery_extended_stateful": (("get_rate", {"rate_class": "B"}), "[ToolError] ValueError: which parcel"),
    "argument_transformation_stateful": (("get_timber", {"code": "oak"}), "[ToolError] ValueError: 'oak' is no code"),
    "inconsistent_api_recovery_stateful": (("list_bookings", {"page": 2}), "[ToolError] ValueError: page 2 cannot be"),
    "grounded_synthesis_stateful": (("read_source", {"source": "S1"}), "no source 'S1' is lent"),
    **{
        f"compaction_chain_{variant}": (
            ("screen_sample", {"sample_id": "S-812", "mineral": "verdine"}),
            "no findings for sample_id 'S-812'",
        )
        for variant in ("baseline", "p1", "p2", "p3")
    },
}
"""A premature or invalid call for each scenario, and the expected error."""


async def told(world: ScenarioState, script: Sequence[ToolCall]) -> list[str]:
    """The results of a run that makes these calls."""
    said = list[Message]()
    runner = WorkflowRunner(SaidClient([[one] for one in script]), max_iterations=20, on_message=said.append)
    await runner.run(world.workflow, world.user_message)
    return [message.content for message in said if message.tool_call_id is not None]


def test_each_stateful_scenario_with_tools_to_be_called_refuses_something() -> None:
    assert {one.name for one in select_scenarios(tags=["stateful"])} - set(REFUSED) == {"relevance_detection_stateful"}


@pytest.mark.parametrize(("name", "refused"), REFUSED.items(), ids=REFUSED)
async def test_a_call_that_does_not_fit_is_refused_and_the_run_goes_on(name: str, refused: tuple[Call, str]) -> None:
    (scenario,) = select_scenarios([name])
    world = scenario.build(0)
    (tool, args), answer = refused

    results = await told(world, [ToolCall.of(tool, args), *world.ideal])

    assert answer in results[0]
    last = world.ideal[-1]
    assert world.validate(last.tool, last.args() or {}) is None


UNDONE: list[tuple[str, Sequence[Call], Sequence[int], str]] = [
    ("tool_selection_stateful", [("order_part", {"part": "BB-68-119", "count": 2})], [], "an order of 2 BB-68-119"),
    ("inventory_audit", [("correct_book", {"item": "rope", "count": 1})], [], "is wrong in rope (1 for 40)"),
    ("inventory_audit", [], [1], "is wrong in canvas (12 for 9)"),
    ("inventory_audit", [], [2], "never counted: B"),
    ("phase2_compaction_stateful", [], [4], "never audited: Eklund"),
    ("supplier_deep_dive", [], [5], "never looked at: Holt"),
    ("inconsistent_api_recovery_stateful", [], [4], "never looked at: 312"),
    ("grounded_synthesis_stateful", [], [4], "never read: S4"),
    ("relevance_detection_stateful", [("find_book", {"title": "yen"})], [], "find_book was called"),
]
"""Calls made first, omitted steps of the ideal run, and what is then wrong with the right answer."""


@pytest.mark.parametrize(("name", "first", "left_out", "wrong"), UNDONE)
async def test_a_correct_answer_does_not_compensate_for_wrong_or_missing_steps(
    name: str, first: Sequence[Call], left_out: Sequence[int], wrong: str
) -> None:
    (scenario,) = select_scenarios([name])
    world = scenario.build(0)
    kept = [one for place, one in enumerate(world.ideal) if place not in left_out]

    await told(world, [*(ToolCall.of(tool, args) for tool, args in first), *kept])

    last = world.ideal[-1]
    assert wrong in (world.validate(last.tool, last.args() or {}) or "")
