"""Messages in the dialect of a server: the roles it knows, in the places it allows; the order and the content stay."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.core.dialect import Dialect, Reasoning, UnsupportedFeature
from forge_proxy.wire.backends.openai.roles import adapt_roles, filter_reasoning

Message = dict[str, Any]
S: Message = {"role": "system", "content": "s"}
D: Message = {"role": "developer", "content": "d"}
U: Message = {"role": "user", "content": "u"}
A: Message = {"role": "assistant", "content": "a"}
CALL: Message = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
RESULT: Message = {"role": "tool", "tool_call_id": "1", "content": "r"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:"}}
PARTS: Message = {"role": "user", "content": [IMAGE]}


def said(role: str, content: Any, **fields: Any) -> Message:
    return {"role": role, "content": content, **fields}


@pytest.mark.parametrize(
    ("needs", "messages", "written"),
    [
        ([UnsupportedFeature.NO_DEVELOPER], [D, U, D], [said("system", "d"), U, said("system", "d")]),
        ([UnsupportedFeature.NO_DEVELOPER], [S, U, U, A, A], [S, U, U, A, A]),
        ([UnsupportedFeature.SYSTEM_FIRST], [S, D, U], [said("system", "s\n\nd"), U]),
        ([UnsupportedFeature.SYSTEM_FIRST], [S, U, A, D, U], [S, U, A, said("user", "d"), U]),
        ([UnsupportedFeature.NO_SYSTEM], [S, U, A], [said("user", "s"), U, A]),
        ([UnsupportedFeature.NO_SYSTEM, UnsupportedFeature.ALTERNATION], [S, U, A], [said("user", "s\n\nu"), A]),
        (
            [UnsupportedFeature.ALTERNATION],
            [S, S, U, U, A, A, U],
            [said("system", "s\n\ns"), said("user", "u\n\nu"), said("assistant", "a\n\na"), U],
        ),
        ([UnsupportedFeature.ALTERNATION], [U, A, S, U], [U, A, said("user", "s\n\nu")]),
        (
            [UnsupportedFeature.ALTERNATION],
            [U, PARTS, U],
            [said("user", [{"type": "text", "text": "u"}, IMAGE, {"type": "text", "text": "u"}])],
        ),
        ([UnsupportedFeature.ALTERNATION], [U, CALL, RESULT, RESULT, A], [U, CALL, RESULT, RESULT, A]),
        (
            [UnsupportedFeature.ALTERNATION],
            [U, A, CALL, RESULT],
            [U, said("assistant", "a", tool_calls=[{"id": "1"}]), RESULT],
        ),
        ([UnsupportedFeature.ALTERNATION], [U, CALL, A], [U, CALL, A]),
        (
            [UnsupportedFeature.ALTERNATION],
            [U, said("assistant", ""), said("assistant", None)],
            [U, said("assistant", "")],
        ),
        ([UnsupportedFeature.PLAIN_SCHEMAS], [S, S, D, U, U], [S, S, D, U, U]),
    ],
)
def test_roles_are_mapped_as_needed(
    needs: list[UnsupportedFeature], messages: list[Any], written: list[Message]
) -> None:
    dialect = Dialect()
    for need in needs:
        dialect = dialect.avoid(need)

    assert adapt_roles(messages, dialect) == written


@pytest.mark.parametrize("need", UnsupportedFeature)
def test_a_need_is_met_once(need: UnsupportedFeature) -> None:
    dialect = Dialect().avoid(need)

    assert dialect != Dialect()
    assert dialect.avoid(need) == dialect
    assert dialect.changes


FIRST = said("assistant", "1", reasoning="old")
LAST = said("assistant", "2", reasoning_content="new", x=1)


@pytest.mark.parametrize(
    ("policy", "first", "last"),
    [
        ("as-sent", FIRST, LAST),
        ("none", said("assistant", "1"), said("assistant", "2", x=1)),
        ("keep-last", said("assistant", "1"), said("assistant", "2", x=1, reasoning_content="new", reasoning="new")),
        (
            "all",
            said("assistant", "1", reasoning_content="old", reasoning="old"),
            said("assistant", "2", x=1, reasoning_content="new", reasoning="new"),
        ),
    ],
)
def test_reasoning_is_forwarded_by_policy(policy: Reasoning, first: Message, last: Message) -> None:
    assert filter_reasoning([U, FIRST, U, LAST, RESULT], policy) == [U, first, U, last, RESULT]
