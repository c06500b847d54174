"""The usage reported to the client after several attempts."""

from __future__ import annotations

import orjson
import pytest

from forge_proxy.core.guardrails.usage import TokenUsage
from forge_proxy.core.jsontypes import JsonObject


def usage(prompt: int, completion: int, **more: JsonObject) -> JsonObject:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **more}


def spent(*attempts: JsonObject) -> TokenUsage:
    """The first attempt has the caller's own prompt, each other one corrections as well."""
    all_of_them = TokenUsage()
    for number, attempt in enumerate(attempts):
        all_of_them.add(attempt, corrected=number > 0)
    return all_of_them


def test_a_missing_count_is_not_zero() -> None:
    nothing = spent()

    assert (nothing.usage(), nothing.completion_tokens, nothing.tokens) == (None, None, 0)


def test_the_usage_of_one_attempt_is_that_of_the_backend() -> None:
    only = usage(10, 5, prompt_tokens_details={"cached_tokens": 8})

    assert spent(only).usage() is only
    assert spent({"prompt_tokens": 3}).usage() == {"prompt_tokens": 3}


def test_the_usage_combines_the_delivered_response_with_the_clients_own_prompt() -> None:
    first = usage(10, 5, prompt_tokens_details={"cached_tokens": 8})
    last = usage(30, 7, prompt_tokens_details={"cached_tokens": 20}, completion_tokens_details={"reasoning_tokens": 2})

    several = spent(first, usage(20, 6), last)

    assert several.usage() == usage(
        10, 7, prompt_tokens_details={"cached_tokens": 8}, completion_tokens_details={"reasoning_tokens": 2}
    )
    assert several.completion_tokens == 7
    assert several.tokens == 15 + 26 + 37


@pytest.mark.parametrize(
    ("first", "last", "told"),
    [
        ({"completion_tokens": 5}, usage(20, 6), usage(20, 6)),
        (usage(10, 5), {"prompt_tokens": 20}, {"prompt_tokens": 10, "total_tokens": 10}),
        ({"prompt_tokens": True}, usage(20, 6), usage(20, 6)),
        ({}, usage(20, 6), usage(20, 6)),
    ],
)
def test_counts_that_the_backend_omits_are_not_invented(first: JsonObject, last: JsonObject, told: JsonObject) -> None:
    assert spent(first, last).usage() == told


def test_an_attempt_without_corrections_has_the_clients_own_prompt() -> None:
    again = TokenUsage()
    again.add(usage(30, 6), corrected=True)
    again.add(usage(10, 7))

    assert again.usage() == usage(10, 7)


def test_the_respond_tool_does_not_count_as_the_clients_prompt() -> None:
    first = usage(50, 5, prompt_tokens_details={"cached_tokens": 45, "audio_tokens": 0})

    told = spent(first, usage(90, 7))

    assert told.usage(respond_tokens=30) == usage(20, 7, prompt_tokens_details={"cached_tokens": 15, "audio_tokens": 0})
    assert told.tokens == 55 + 97
    assert spent(usage(10, 5)).usage(respond_tokens=30) == usage(0, 5)


def test_a_usage_object_is_never_modified() -> None:
    first, last = usage(10, 5), usage(20, 6)

    spent(first, last).usage()

    assert (first, last) == (usage(10, 5), usage(20, 6))


def test_sums_of_absurd_counts_can_be_serialized() -> None:
    absurd = usage(2**64 - 1, 2**63)

    several = spent(usage(2**53, 2**53), absurd, usage(2**53, 2**53))

    assert several.tokens <= 2**55
    assert orjson.dumps(several.usage(3))
    assert orjson.dumps(spent(usage(10, 5), {**absurd, "total_tokens": 2**64 - 1}).usage(3))


@pytest.mark.parametrize("count", [2**63, 2**64 - 1, -1, True, 1.5, "9"])
def test_an_impossible_count_is_not_added(count: int) -> None:
    usage_so_far = TokenUsage()
    for _ in range(3):
        usage_so_far.add({"total_tokens": count})

    assert usage_so_far.tokens == 0
