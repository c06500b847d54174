"""Each call of a task is one complete document, and the orchestrator decides what comes next (D1, D4, D11, D39)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from forge_proxy.core.tasks import models
from forge_proxy.core.tasks.findings import ValidationResult
from forge_proxy.core.tasks.operations import OPERATIONS
from forge_proxy.tasks import assembling, calling, evaluating, validating, writing
from tests.tasks.conftest import open_world
from tests.tasks.test_fan_out import PARTS, SHARED, resolves
from tests.tasks.test_fan_out import plan_of as plan_with
from tests.tasks.test_planned import FIELDS, ONE, PLAN, TWO, writes
from tests.tasks.test_single_step import GOOD, bad


async def test_d1_every_request_is_a_system_and_a_user_prompt_without_history(folder: Path) -> None:
    spoiled = writes("two", "b.py", "BAD = 1\n", times=1)
    async with open_world(folder, PLAN, ONE, spoiled, TWO) as world:
        await world.run(**FIELDS)

        asked = [one for one in world.model.requests if one.operation in OPERATIONS]
        assert [one.operation for one in asked] == ["plan", "generate", "generate", "generate"]
        assert {tuple(message["role"] for message in one.body["messages"]) for one in asked} == {("system", "user")}


@pytest.mark.parametrize("method", ["response_format", "prompt"])
async def test_s_core_a_request_is_rebuilt_from_what_is_stored_byte_for_byte(folder: Path, method: str) -> None:
    tiers = {"generation": {"response_form": "json", "method": method}}
    async with open_world(folder, bad("BAD = 1\n"), GOOD, tiers=tiers) as world:
        done = await world.run()
        stored = await world.tasks.read_documents([call.prompt for call in done.state.calls])

        sent = [one.body["messages"] for one in world.model.made("generate")]
        kept = [json.loads(stored[call.prompt]) for call in done.state.calls]
        assert [[one["system_prompt"], one["user_prompt"]] for one in kept] == [
            [message["content"] for message in messages] for messages in sent
        ]


async def test_d4_the_order_of_the_plan_decides_and_not_what_a_model_proposes(folder: Path) -> None:
    eager = writes("one", "a.py", "a = 1\n")
    eager["respond"]["explanation"] = "Next: skip `two`, merge the branch and start the step `three`."
    async with open_world(folder, PLAN, eager, TWO) as world:
        done = await world.run(**FIELDS)

        assert [one.step for one in world.model.made("generate")] == ["one", "two"]
        assert [*done.state.step_commits] == ["one", "two"]
        assert done.job.status == "requires_action"


async def test_d4_a_model_that_also_works_on_a_later_step_has_failed(folder: Path) -> None:
    both = writes("one", "a.py", "a = 1\n", times=1)
    both["respond"]["files"].append({"path": "b.py", "content": "b = 2\n"})
    async with open_world(folder, PLAN, both, ONE, TWO) as world:
        done = await world.run(**FIELDS)

        assert [one.step for one in world.model.made("generate")] == ["one", "one", "two"]
        assert world.repository.git("show", "--name-only", "--format=", done.state.step_commits["one"]) == "a.py"


async def test_d11_plans_and_conflicts_have_the_model_and_the_room_of_the_reasoning_tier(folder: Path) -> None:
    tiers = {"reasoning": {"model": "large", "max_output": 4096}, "generation": {"max_output": 512}}
    conflict = [writes(name, "names.py", f"NAMES = ['{name}']\n") for name in "ab"]
    for rule, part in zip(conflict, PARTS, strict=False):
        rule["respond"]["files"] += part["respond"]["files"]
    async with open_world(folder, SHARED, *conflict, resolves("NAMES = ['a', 'b']\n"), tiers=tiers) as world:
        world.http.served = ("scripted", "large")
        done = await world.run(plan=True, target_files=[])

        assert done.job.status == "requires_action", done.state.halt
        asked = [one for one in world.model.requests if one.operation in OPERATIONS]
        premium = ("large", 4096)
        resources = {one.operation: (one.body.get("model"), one.body["max_tokens"]) for one in asked}
        assert resources == {"plan": premium, "generate": (None, 512), "resolve_conflicts": premium}


async def test_d29_sub_tasks_of_sub_tasks_are_rejected_unless_the_settings_permit_them(folder: Path) -> None:
    inner = [{"id": name, "description": "d", "target_files": [f"{name}.py"], "context_files": []} for name in "ab"]
    nested = {"id": "x", "description": "d", "target_files": ["a.py", "b.py"], "context_files": [], "sub_tasks": inner}
    other = {"id": "y", "description": "d", "target_files": ["c.py"], "context_files": []}
    step = {"id": "s", "description": "d", "target_files": ["a.py", "b.py", "c.py"], "context_files": [],
            "sub_tasks": [nested, other]}  # fmt: skip
    async with open_world(folder, plan_with(step)) as world:
        done = await world.run(plan=True, target_files=[])

        assert done.job.status == "halted"
        assert "sub-tasks may be nested 1 deep here" in done.state.halt
        assert world.model.made("generate") == []


async def test_d39_states_and_events_have_digests_and_no_prompts(folder: Path) -> None:
    async with open_world(folder, bad("BAD = 'a marker of the response'\n"), GOOD) as world:
        done = await world.run(description="A marker of the prompt.")
        events = [event.data for event in await world.events() if event.type != "finding"]

        calls = json.dumps([[call.prompt, call.response] for call in done.state.calls])
        assert "marker" not in json.dumps(events)
        assert "marker" not in calls
        stored = await world.tasks.read_documents([call.prompt for call in done.state.calls])
        assert all(b"A marker of the prompt." in content for content in stored.values())


FIELDS_OF_MODELS = {
    models.TaskDefinition: {"task_id", "description", "target_files", "domain", "validation"},
    models.ForgeTaskInput: {"task", "plan", "max_attempts", "models"},
    models.AssembledContext: {"system_prompt", "user_prompt", "sections"},
    models.LLMResponse: {"explanation", "files", "edits"},
    models.LLMCallResult: {"text", "prompt_tokens", "completion_tokens", "seconds"},
    models.Plan: {"steps"},
    models.PlanStep: {"id", "description", "target_files", "sub_tasks"},
    models.SubTask: {"id", "description", "target_files"},
    ValidationResult: {"check", "passed", "details"},
    models.TaskResult: {"status", "output_files", "validation_results", "stats"},
}
"""The fields that each model must have."""


@pytest.mark.parametrize(("model", "fields"), FIELDS_OF_MODELS.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_s_models_each_value_has_what_the_architecture_says(model: type[Any], fields: set[str]) -> None:
    described = model.model_fields if issubclass(model, BaseModel) else model.__dataclass_fields__
    assert fields <= {*described}


def test_s_models_a_transition_is_a_success_or_one_of_two_failures() -> None:
    assert {"SUCCESS", "FAILURE_RETRYABLE", "FAILURE_TERMINAL"} <= {*models.TransitionSignal.__members__}


async def test_s_modules_a_step_is_its_five_phases_each_a_module(folder: Path) -> None:
    phases = {
        "assemble_context": assembling, "call_llm": calling, "write_output": writing, "validate_output": validating,
        "evaluate_transition": evaluating,
    }  # fmt: skip
    async with open_world(folder, bad("BAD = 1\n"), GOOD) as world:
        await world.run()
        kinds = [event.type for event in await world.events()]

    assert all(callable(getattr(module, phase)) for phase, module in phases.items())
    attempt = ["assembled", "called", "written", "validated"]
    assert [kind for kind in kinds if kind in (*attempt, "committed")] == [*attempt, *attempt, "committed"]
