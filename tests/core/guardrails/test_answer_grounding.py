"""Final answers that do not agree with the results of tools: which values count, and what an answer has to contain."""

from __future__ import annotations

import pytest

from forge_proxy.core.guardrails.answer_grounding import find_ungrounded_answer
from tests.fakes.scripted import JsonDict


def converse(*results: str, ask: str = "Find the order of Anna.", arguments: str = "{}") -> list[JsonDict]:
    """A conversation with calls that have these results."""
    messages: list[JsonDict] = [{"role": "user", "content": ask}]
    for number, result in enumerate(results):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "find", "arguments": arguments}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": result},
        ]
    return messages


ORDER = '{"order": "ORD-4711", "status": "shipped"}'


@pytest.mark.parametrize(
    ("answer", "values"),
    [
        ("The order is ORD-4712.", ("ORD-4712",)),
        ("**ORD-4712** and `XYZ_0815`.", ("ORD-4712", "XYZ_0815")),
        ("The orders ORD-4711 and NORD-4711.", ("NORD-4711",)),
        ("The order ORD-471 was shipped.", ("ORD-471",)),
        ("Tracking number 90210817.", ("90210817",)),
        ("ORD-4712, ORD-4712 and again ord-4712.", ("ORD-4712", "ord-4712")),
    ],
)
def test_values_that_appear_nowhere_are_found(answer: str, values: tuple[str, ...]) -> None:
    found = find_ungrounded_answer(answer, converse(ORDER))

    assert found is not None
    assert (found.values, found.result) == (values, ORDER)


@pytest.mark.parametrize(
    "answer",
    [
        "The order is ORD-4711.",
        "The order is ord-4711.",
        "The order is ORD\N{NON-BREAKING HYPHEN}4711.",
        "The order is ORD4711, see also `ORD_4711`.",
        "ORD-4711: see src/orders.py:1204, from 2026-11-24, version 1.20.300.",
        "ORD-4711 costs 12,345.67 euros, 19 % of which is tax.",
        "ORD-4711. Look:\n```\nid = 'ABC-12345'\n```",
        "ORD-4711 has UTF-8, GPT-4 and a 10x step.",
    ],
    ids=["the same", "case", "another hyphen", "other separators", "places and versions", "numbers with a fraction",
         "code", "few digits"],
)  # fmt: skip
def test_what_is_known_or_the_models_own_is_not_found(answer: str) -> None:
    assert find_ungrounded_answer(answer, converse(ORDER)) is None


@pytest.mark.parametrize(
    "messages",
    [
        converse(ORDER, ask="Is it A-10293?"),
        converse(ORDER, arguments='{"order": "A-10293"}'),
        [{"role": "system", "content": "The shop is A-10293."}, *converse(ORDER)],
        [*converse("A-10293"), *converse(ORDER)],
        converse(ORDER, "48213a10293aaa"),
    ],
    ids=["the user's words", "arguments", "the system prompt", "an earlier result", "a long value's beginning"],
)
def test_a_value_may_come_from_anywhere_in_the_conversation(messages: list[JsonDict]) -> None:
    answer = "It is A-10293." if "48213" not in str(messages) else "It is 48213a10."

    found = find_ungrounded_answer(answer, messages)

    assert found is None or not found.values


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (ORDER, "All done."),
        (ORDER, "The order of Anna was shipped."),
        ('{"sky": "sunny", "degrees": 21}', "The result is sky."),
        ("It is sunny in Oslo today.", "Done!"),
        ('["ORD-4711", {"next": "ORD-4712"}]', "There are two orders."),
        ("21", "I looked it up."),
    ],
)
def test_a_short_answer_with_nothing_of_a_short_result_is_found(result: str, answer: str) -> None:
    found = find_ungrounded_answer(answer, converse(result))

    assert found is not None
    assert (found.values, found.result) == ((), result)


@pytest.mark.parametrize(
    ("results", "answer"),
    [
        ([ORDER], "ORD-4711"),
        (['{"sky": "sunny", "degrees": 21}'], "It is sunny."),
        (['{"sky": "sunny", "degrees": 21}'], "21 degrees"),
        ([ORDER], "I have looked into everything that you asked me to do. " * 5),
        (["The file has these lines. " * 20], "Done."),
        ([ORDER, "ok"], "Done."),
        ([ORDER, '{"done": true, "error": null}'], "Done."),
        ([ORDER], "I'll look for the customer next."),
        (["Error: no such order: ORD-4711"], "There is none."),
        (['{"status": "pending", "job": "J-1234"}'], "It is still running."),
        ([], "All done."),
    ],
    ids=["the code alone", "a word", "a number", "a long answer", "a long result", "a result without words",
         "a result without values", "an announcement", "an error", "work in progress", "no result"],
)  # fmt: skip
def test_other_answers_need_not_contain_the_result(results: list[str], answer: str) -> None:
    assert find_ungrounded_answer(answer, converse(*results)) is None


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        ("File written.", "Done."),
        (ORDER, "The format of the order follows RFC7231, and its status is that of ISO8601 dates. " * 3),
        (f"{ORDER} {'x' * 300}", "Done."),
        (ORDER, "It is ORD-4711."),
    ],
    ids=["no code in the result", "a long answer", "a long result", "right"],
)
def test_only_lookups_leaves_other_answers_alone(result: str, answer: str) -> None:
    assert find_ungrounded_answer(answer, converse(result), only_lookups=True) is None


@pytest.mark.parametrize("answer", ["Done.", "It is ORD-4712."])
def test_only_lookups_finds_answers_without_the_code(answer: str) -> None:
    assert find_ungrounded_answer(answer, converse(ORDER), only_lookups=True) is not None


def test_only_results_since_the_users_last_message_count() -> None:
    messages = [*converse(ORDER), {"role": "assistant", "content": "ORD-4711"}, {"role": "user", "content": "Thanks!"}]

    assert find_ungrounded_answer("You are welcome, KLM-1234!", messages) is None


def test_a_very_long_conversation_is_not_searched() -> None:
    assert find_ungrounded_answer("It is ORD-9999.", converse("word " * 250_000)) is None
