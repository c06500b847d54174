"""Former names of routes and JSON fields work until 0.3, and a warning is logged once."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from forge_proxy.api.admin.status import CapabilityInfo
from forge_proxy.core.capability import CapabilityCard
from tests.api.admin.test_runs import RUNS, run
from tests.api.admin.world import ADMIN, world
from tests.api.test_mistakes import ASK
from tests.fakes.says import Said

JsonDict = dict[str, Any]
FORMER_FIELDS = {
    "because": "reason", "unmanaged_because": "unmanaged_reason", "text_answers": "text_responses", "now": "effective",
    "acts": "active", "what": "action", "why": "reason", "aim_tokens": "target_tokens", "known": "recommendations",
}  # fmt: skip
READS = ("backend", "budget", "compaction", "guardrails", "models", "sampling", "status", "text-responses")


def objects(value: Any) -> list[JsonDict]:
    """All objects in a JSON value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return ([value] if isinstance(value, dict) else []) + [found for each in inner for found in objects(each)]


async def test_every_renamed_field_is_sent_by_both_names_and_the_former_one_is_described_as_deprecated() -> None:
    history = [{"role": "user", "content": "x" * 9000}, {"role": "assistant", "content": "y" * 9000}] * 4
    preview = {"messages": history, "budget_tokens": 2000}
    async with world(Said(text="It is sunny."), Said(text="It is."), Said(text="It is.")) as client:
        await client.post("/v1/chat/completions", json=ASK)
        responses = [(await client.get(f"{ADMIN}/{path}")).json() for path in READS]
        responses.append((await client.post(f"{ADMIN}/compaction/preview", json=preview)).json())
        schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]

    sent = [(each, old) for each in objects(responses) for old in FORMER_FIELDS if old in each]
    assert {old for _, old in sent} == set(FORMER_FIELDS)
    assert [old for each, old in sent if each[old] != each[FORMER_FIELDS[old]]] == []
    deprecated = {
        name for schema in schemas.values() for name, field in schema.get("properties", {}).items()
        if field.get("deprecated")
    }  # fmt: skip
    assert deprecated == set(FORMER_FIELDS)


async def test_the_former_route_works_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as client:
        with caplog.at_level(logging.WARNING, "forge_proxy.api"):
            former = [await client.request(method, f"{ADMIN}/text-answers") for method in ("GET", "DELETE", "GET")]
            present = await client.get(f"{ADMIN}/text-responses")
        paths = (await client.get("/openapi.json")).json()["paths"]

    assert [each.json() for each in former] == [present.json()] * 3
    note = f"{ADMIN}/text-answers is now {ADMIN}/text-responses; the old name ends with 0.3"
    assert [record.message for record in caplog.records] == [note]
    assert paths[f"{ADMIN}/text-answers"]["get"]["deprecated"]
    assert "deprecated" not in paths[f"{ADMIN}/text-responses"]["get"]


async def test_the_former_name_of_a_guardrail_setting_can_be_changed_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as client:
        with caplog.at_level(logging.WARNING, "forge_proxy.api"):
            changes = [
                (await client.patch(f"{ADMIN}/guardrails", json={name: value})).json()
                for name, value in (("text_answers", "nudge"), ("text_answers", "accept"), ("max_retries", 1))
            ]

    assert [change["text_responses"] for change in changes] == ["nudge", "accept", "accept"]
    note = "text_answers is now text_responses; the old name ends with 0.3"
    assert [record.message for record in caplog.records] == [note]


async def test_the_former_name_of_the_client_as_executor_works_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    former = run()
    former["workflow"]["tools"]["look"]["execute"] = {"by": "caller"}
    async with world() as client:
        with caplog.at_level(logging.WARNING, "forge_proxy.api"):
            responses = [
                await client.post(RUNS, json=body, headers={"Idempotency-Key": "k"}) for body in (former, run(), former)
            ]

    assert [response.status_code for response in responses] == [200] * 3
    assert len({response.json()["id"] for response in responses}) == 1
    note = 'execute.by "caller" is now "client"; the old name ends with 0.3'
    assert [record.message for record in caplog.records] == [note]


def test_the_result_of_a_self_test_has_the_reason_by_both_names() -> None:
    card = CapabilityCard("m", "native", "it called a tool", calls=True)

    shown = CapabilityInfo.model_validate(card.as_json()).model_dump()

    assert (shown["reason"], shown["because"]) == ("it called a tool", "it called a tool")
    assert set(shown) == {*card.as_json(), "because"}
