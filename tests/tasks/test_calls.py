"""The record of the calls of a task (D39, D42): it says what became of each call, and no task depends on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from forge_proxy.core.store_errors import StoreUnavailable
from tests.tasks.conftest import World, open_world
from tests.tasks.test_planned import FIELDS, ONE, PLAN, TWO
from tests.tasks.test_single_step import ADD, GOOD, bad

UNMATCHED = {**GOOD, "fault": "unmatched", "times": 1}


async def outcomes(world: World, task_id: str = "total") -> list[tuple[str, int, int, str]]:
    calls = await world.tasks.list_calls(task_id)
    return [(call.operation, call.attempt, call.part, call.outcome) for call in calls]


async def test_d42_each_call_is_recorded_with_what_became_of_it(folder: Path) -> None:
    async with open_world(folder, PLAN, ONE, TWO) as world:
        done = await world.run(**FIELDS)
        calls = await world.tasks.list_calls("total")
        stored = await world.stored_calls("total")

        assert done.job.status == "requires_action"
        assert [(call.operation, call.tier, call.step, call.outcome) for call in calls] == [
            ("plan", "reasoning", None, "passed"),
            ("generate", "generation", "one", "passed"),
            ("generate", "reasoning", "two", "passed"),
        ]
        assert all(call.model and call.seconds >= 0 and call.prompt_tokens and call.at for call in calls)
        assert stored == calls  # the table has the same


async def test_d42_failed_edits_failed_checks_and_invalid_responses_have_outcomes(folder: Path) -> None:
    async with open_world(folder, UNMATCHED, bad("BAD = 1\n"), {**GOOD, "fault": "bad_json", "times": 2}) as world:
        await world.run(max_attempts=2)

        assert await outcomes(world) == [
            ("generate", 1, 0, "edits_failed"),
            ("generate", 1, 1, "failed"),
            ("generate", 2, 0, "invalid"),
        ]
        invalid = (await world.stored_calls("total"))[-1]
        assert (invalid.requests, invalid.model) == (2, "scripted")


async def test_d42_the_levels_of_the_edits_are_recorded(folder: Path) -> None:
    inexact = {**ADD, "search": "\t\tself.items = []\n"}
    rule: dict[str, Any] = {"respond": {"edits": [{"path": "cart.py", "edits": [inexact]}]}}
    async with open_world(folder, rule) as world:
        await world.run()

        (call,) = await world.stored_calls("total")
        assert call.match_levels == ("indentation",)


async def test_d42_a_task_runs_without_the_record_and_counts_what_it_has_dropped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forge_proxy.telemetry.task_call_writer._MAX_WAITING", 1)
    async with open_world(folder, PLAN, ONE, TWO) as world:
        world.calls_error = StoreUnavailable("the disk is full")
        done = await world.run(**FIELDS)

        assert done.job.status == "requires_action"
        assert world.tasks.dropped_calls > 0
        world.calls_error = None
        assert [outcome for *_, outcome in await outcomes(world)] == ["passed"] * 3  # of the state of the task


async def test_d42_the_records_of_a_deleted_task_are_deleted(folder: Path) -> None:
    async with open_world(folder, GOOD) as world:
        await world.run()
        assert len(await world.stored_calls("total")) == 1
        await world.tasks.reject("total", "ada")
        await world.wait("completed")
        await world.tasks.delete("total")

        assert await world.stored_calls("total") == []


async def test_d33_a_schema_in_the_prompt_counts_against_the_window(folder: Path) -> None:
    def tiers(method: str) -> dict[str, Any]:
        return {"generation": {"response_form": "json", "method": method, "max_output": 64}}

    async def prompt_tokens(method: str) -> int:
        async with open_world(folder / method, GOOD, tiers=tiers(method)) as world:
            done = await world.run()
            assert done.job.status == "requires_action", done.state.halt
            (event,) = [event for event in await world.events() if event.type == "assembled"]
            return orjson.loads(event.data)["tokens"]

    limited, noted = await prompt_tokens("response_format"), await prompt_tokens("prompt")
    window = (limited + noted) // 2 + 64
    async with open_world(folder / "small", GOOD, tiers=tiers("prompt"), window=window) as world:
        done = await world.run()

        assert f"the prompt has {noted} tokens and its response 64, but the window has only {window}" in done.state.halt
        assert world.model.made("generate") == []


async def test_s_errors_a_correction_quotes_as_much_of_the_response_as_fits_into_the_window(folder: Path) -> None:
    rules = ({**GOOD, "fault": "bad_json", "times": 1}, GOOD)
    tiers: dict[str, Any] = {"generation": {"response_form": "json", "method": "response_format", "max_output": 64}}

    async def correction(name: str, window: int) -> tuple[list[str], int]:
        async with open_world(folder / name, *rules, tiers=tiers, window=window) as world:
            done = await world.run()
            assert done.job.status == "requires_action", done.state.halt
            (event,) = [event for event in await world.events() if event.type == "assembled"]
            (corrected,) = world.model.made("correction")
            messages = [str(message["content"]) for message in corrected.body["messages"]]
            return messages, orjson.loads(event.data)["tokens"]

    whole, tokens = await correction("large", 32_768)
    for free in (45, 30, 0):
        cut, _ = await correction(f"small {free}", tokens + 64 + free)

        assert len(cut) == len(whole) == 4
        assert len(cut[2]) < len(whole[2])
        assert whole[2].startswith(cut[2])
        assert not cut[2] or len(cut[2] + cut[3]) <= 4 * free
