"""In its budget, an ideal run of a compaction scenario reaches its phase, and can be completed."""

from __future__ import annotations

import pytest

from forge_proxy.core.compaction import TieredCompact
from forge_proxy.evals.scenarios import ALL, select_scenarios
from forge_proxy.workflows.context import CompactEvent, ContextManager
from forge_proxy.workflows.runner import WorkflowRunner
from tests.fakes.said_client import SaidClient

PHASES = {
    "compaction_stress": 1,
    "compaction_stress_stateful": 1,
    "inventory_audit": 1,
    "supplier_deep_dive": 1,
    "phase2_compaction": 2,
    "phase2_compaction_stateful": 2,
    "compaction_chain_p1": 1,
    "compaction_chain_p2": 2,
    "compaction_chain_p3": 3,
}


def test_each_scenario_with_a_budget_has_its_phase() -> None:
    assert {one.name for one in ALL if one.budget_tokens} == set(PHASES)
    assert {one.name for one in select_scenarios(tags=["compaction"])} == set(PHASES)


@pytest.mark.parametrize(("name", "phase"), PHASES.items(), ids=PHASES)
async def test_an_ideal_run_reaches_exactly_its_phase(name: str, phase: int) -> None:
    (scenario,) = select_scenarios([name])
    world, events = scenario.build(0), list[CompactEvent]()
    context = ContextManager(TieredCompact(keep_recent=2), scenario.budget_tokens or 0, on_compact=events.append)
    client = SaidClient([[one] for one in world.ideal])

    await WorkflowRunner(client, context, scenario.max_iterations).run(world.workflow, world.user_message)

    assert max(event.phase_reached for event in events) == phase
    assert len(client.asked) == scenario.ideal_iterations
    last = world.ideal[-1]
    assert world.validate(last.tool, last.args() or {}) is None


async def test_findings_remain_in_the_history_after_results_are_dropped() -> None:
    for name in ("compaction_chain_p1", "compaction_chain_p2", "compaction_chain_p3"):
        (scenario,) = select_scenarios([name])
        world = scenario.build(0)
        context = ContextManager(TieredCompact(keep_recent=2), scenario.budget_tokens or 0)
        client = SaidClient([[one] for one in world.ideal])

        await WorkflowRunner(client, context, scenario.max_iterations).run(world.workflow, world.user_message)

        told = str(client.asked[-1])
        assert "the night nurse" in told if name.endswith("p1") else "the night nurse" not in told
        assert [fact for fact in ("P-330", "verdine", "61", "jug", "colmarin", "612") if fact not in told] == []


async def test_the_baseline_is_the_same_investigation_without_a_budget() -> None:
    baseline, *others = select_scenarios(["compaction_chain_baseline", "compaction_chain_p1", "compaction_chain_p2"])

    assert baseline.budget_tokens is None
    assert all(one.build(0).ideal == baseline.build(0).ideal for one in others)
    assert all(one.build(0).user_message == baseline.build(0).user_message for one in others)
