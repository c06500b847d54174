"""The statistics of the retries of invalid calls: shown, followed, reset."""

from __future__ import annotations

from tests.api.admin.world import ADMIN, world
from tests.api.test_constrained_retries import AS_JSON, REFUSAL, UNKNOWN
from tests.api.test_mistakes import ASK, RIGHT
from tests.fakes.says import Said

PATH = f"{ADMIN}/retries"
BODY = {**ASK, "model": "scripted"}
ONE_RETRY = {"max_retries": 2}


async def test_retries_that_fail_are_counted_and_then_the_first_is_constrained() -> None:
    script = [*[UNKNOWN, UNKNOWN, AS_JSON] * 8, UNKNOWN, AS_JSON]
    async with world(*script, guardrails=ONE_RETRY) as client:
        before = (await client.get(PATH)).json()
        for _ in range(8):
            await client.post("/v1/chat/completions", json=BODY)
        (learned,) = (await client.get(PATH)).json()["data"]
        answer = await client.post("/v1/chat/completions", json=BODY)
        (after,) = (await client.get(PATH)).json()["data"]

    assert before == {"object": "list", "constrain_retries": "auto", "data": []}
    figures = {"model": "scripted", "free": 8, "free_valid": 0, "constrained": 8, "constrained_valid": 8}
    assert learned == {**figures, "first_retry": "constrained"}
    assert answer.headers["x-forge-attempts"] == "2"
    assert (after["free"], after["constrained"]) == (8, 9)


async def test_retries_that_succeed_leave_the_first_free() -> None:
    async with world(*[UNKNOWN, RIGHT] * 9, guardrails=ONE_RETRY) as client:
        for _ in range(9):
            await client.post("/v1/chat/completions", json=BODY)
        (learned,) = (await client.get(PATH)).json()["data"]

    assert (learned["free"], learned["free_valid"], learned["first_retry"]) == (9, 9, "free")


async def test_what_a_server_refused_is_remembered_and_counts_as_a_free_retry() -> None:
    script = [UNKNOWN, REFUSAL, REFUSAL, RIGHT, UNKNOWN, RIGHT]
    async with world(*script, guardrails={"constrain_retries": "always"}) as client:
        first = await client.post("/v1/chat/completions", json=BODY)
        again = await client.post("/v1/chat/completions", json=BODY)
        (learned,) = (await client.get(PATH)).json()["data"]

    assert [one.json()["choices"][0]["finish_reason"] for one in (first, again)] == ["tool_calls", "tool_calls"]
    assert (learned["free"], learned["constrained"]) == (2, 0)


async def test_retries_of_plain_text_are_not_among_them() -> None:
    async with world(Said(text="Hm."), RIGHT) as client:
        await client.post("/v1/chat/completions", json=BODY)
        assert (await client.get(PATH)).json()["data"] == []


async def test_the_figures_of_one_model_or_of_all_can_be_reset() -> None:
    async with world(UNKNOWN, RIGHT, UNKNOWN, RIGHT) as client:
        await client.post("/v1/chat/completions", json=BODY)
        missing = await client.delete(f"{PATH}/other")
        one = await client.delete(f"{PATH}/scripted")
        await client.post("/v1/chat/completions", json=BODY)
        everything = await client.delete(PATH)

    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")
    assert one.json()["data"] == everything.json()["data"] == []
