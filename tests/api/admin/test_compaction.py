"""The compaction policy and its preview in the admin API: a preview shows exactly what a request does."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.admin.world import ADMIN, error, world
from tests.api.test_compaction import TOOL, history
from tests.fakes.says import Said
from tests.folding import folded

BUDGET = {"mode": "manual", "tokens": 1000, "overflow": "compact"}


@pytest.mark.parametrize(
    ("overflow", "strategy", "acts"),
    [
        ("compact", "tiered", True),
        ("compact", "sliding", True),
        ("compact", "none", False),
        ("reject", "tiered", False),
    ],
)
async def test_the_compaction_policy_reports_whether_it_is_active(overflow: str, strategy: str, acts: bool) -> None:
    async with world(budget={"overflow": overflow}) as client:
        policy = {"strategy": strategy, "threshold": 0.5, "keep_recent": 4}
        chosen = (await client.put(f"{ADMIN}/compaction", json=policy)).json()
        said = (await client.get(f"{ADMIN}/compaction")).json()
        config = (await client.get(f"{ADMIN}/config")).json()

    assert chosen == said
    assert said["policy"] == config["compaction"] == policy
    assert said["active"] is acts
    assert ("histories are not changed" in said["note"]) is not acts


async def test_a_preview_lists_the_cuts_of_each_phase_with_reasons_and_the_phase_used() -> None:
    async with world(budget=BUDGET) as client:
        said = (await client.post(f"{ADMIN}/compaction/preview", json={"messages": history(), "tools": [TOOL]})).json()

    assert [phase["phase"] for phase in said["phases"]] == [1, 2, 3]
    assert [phase["fits"] for phase in said["phases"]] == [True, True, True]
    assert said["tokens"] > 1000 > 750 == said["target_tokens"] >= said["phases"][0]["tokens"]
    (cut,) = said["phases"][0]["cuts"]
    assert cut.pop("tokens_saved") > 900
    assert cut.pop("reason") == cut.pop("why")
    shorter = "x" * 200 + "\n[Truncated — 3800 chars removed]"
    assert cut == {"message": 2, "type": "tool_result", "action": "truncated", "what": "truncated", "content": shorter}
    assert (said["used"], said["fits"], said["exact"]) == (1, True, False)


async def test_a_request_is_compacted_as_previewed() -> None:
    async with world(Said(text="Done."), budget=BUDGET) as client:
        said = (await client.post(f"{ADMIN}/compaction/preview", json={"messages": history()})).json()
        answer = await client.post("/v1/chat/completions", json={"messages": history()})

    used = said["phases"][said["used"] - 1]
    told = f"phase={said['used']}; messages=1; tokens=about {said['tokens']}->{used['tokens']}"
    assert answer.headers["x-forge-compacted"] == told
    assert said["messages"][2]["content"] == used["cuts"][0]["content"]


async def test_a_recorded_request_can_be_previewed_unchanged() -> None:
    asked = {"messages": history(), "tools": [TOOL], "model": None}
    recorded = {**asked, "temperature": 0.2, "stream": True, "stream_options": None, "tool_choice": "auto", "top_k": 5}
    async with world(budget=BUDGET) as client:
        bare, whole = [
            (await client.post(f"{ADMIN}/compaction/preview", json=body)).json() for body in (asked, recorded)
        ]

    assert whole == bare
    assert whole["used"] == 1


@pytest.mark.parametrize(
    ("asked", "used", "fits"),
    [
        ({"budget_tokens": 4000}, None, True),
        ({"messages": history(recent=800), "budget_tokens": 256}, 2, False),
        ({"policy": {"strategy": "none"}}, None, False),
        ({"policy": {"strategy": "sliding", "keep_recent": 1}}, 1, True),
        ({"policy": {"keep_recent": 3}}, None, False),
    ],
)
async def test_a_preview_for_another_budget_or_policy(asked: dict[str, Any], used: int | None, fits: bool) -> None:
    async with world(budget=BUDGET) as client:
        body = {"messages": history(), **asked}
        said = (await client.post(f"{ADMIN}/compaction/preview", json=body)).json()

    assert (said["used"], said["fits"]) == (used, fits)


@folded
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": history(), "temperature": 1, "budget": 300}, "budget"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role"),
        ({"messages": history(), "budget_tokens": 255}, "budget_tokens"),
        ({"messages": history(), "policy": {"keep_recent": 0}}, "policy.keep_recent"),
        ({"messages": history(), "tools": [{"type": "function"}]}, "tools[0].function"),
        ({"messages": history()}, "budget_tokens"),  # the window is unknown
    ],
)
async def test_an_invalid_preview_is_a_400_that_names_the_field(
    client: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    answer = await client.post(f"{ADMIN}/compaction/preview", json=body)

    assert error(answer) == (400, None, field)
