"""The client's messages as compaction classifies them, and the cuts in their JSON: nothing else changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.compaction import SlidingWindowCompact, TieredCompact
from forge_proxy.core.estimate import estimate_messages_tokens
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import MessageType
from forge_proxy.wire.compaction import apply_cuts, classify_messages
from forge_proxy.wire.message_repair import repair_messages
from tests.properties import examples

JsonDict = dict[str, Any]
LONG = "x" * 2000
_TEXTS = st.text(max_size=10) | st.integers(1, 300).map("lorem ".__mul__)
PICTURE: Json = {"type": "image_url", "image_url": {"url": "data:"}}


def parts(text: str) -> Json:
    """A text and a picture."""
    return [{"type": "text", "text": text}, PICTURE]


def call(identity: str, arguments: str = "{}") -> JsonDict:
    return {"id": identity, "type": "function", "function": {"name": "look", "arguments": arguments}}


def assistant(*identities: str, **more: Any) -> JsonDict:
    calls = {"tool_calls": [call(identity) for identity in identities]} if identities else {}
    return {"role": "assistant", "content": None, **calls, **more}


def result(identity: str, content: Any, **more: Any) -> JsonDict:
    return {"role": "tool", "tool_call_id": identity, "content": content, **more}


USER: JsonDict = {"role": "user", "content": "Look."}
HISTORY: list[Json] = [
    {"role": "developer", "content": "You look."},
    USER,
    assistant("a", "b", reasoning_content="Two of them.", x_of_the_client=1),
    result("a", LONG, x_of_the_client=2),
    result("b", parts(LONG)),
    {"role": "assistant", "content": "Done.", "reasoning": "That was easy."},
    USER,
    assistant("c"),
    result("c", LONG),
    assistant("d"),
    result("d", LONG),
]


def phase(number: int, messages: list[Json] = HISTORY) -> list[Any]:
    """The messages after that phase."""
    tags = classify_messages(messages)
    return apply_cuts(messages, tags, list(TieredCompact().plans(tags.messages))[number - 1].cuts)


def test_messages_are_classified_by_their_purpose() -> None:
    tags = classify_messages(HISTORY)

    kinds = [(place, message.type.value) for place, message in zip(tags.places, tags.messages, strict=True)]
    assert kinds == [
        (0, "system_prompt"),
        (1, "user_input"),
        (2, "reasoning"),
        (2, "tool_call"),
        (3, "tool_result"),
        (4, "tool_result"),
        (5, "reasoning"),
        (5, "text_response"),
        (6, "user_input"),
        (7, "tool_call"),
        (8, "tool_result"),
        (9, "tool_call"),
        (10, "tool_result"),
    ]
    assert [message.metadata.step_index for message in tags.messages] == [
        None,
        None,
        0,
        0,
        0,
        0,
        1,
        1,
        None,
        2,
        2,
        3,
        3,
    ]


def test_phase_1_truncates_old_results_and_keeps_their_images() -> None:
    after = phase(1)

    shorter = "x" * 200 + "\n[Truncated — 1800 chars removed]"
    assert after[3] == {**result("a", shorter), "x_of_the_client": 2}
    assert after[4]["content"] == [
        {"type": "text", "text": shorter},
        {"type": "image_url", "image_url": {"url": "data:"}},
    ]
    assert [*after[:3], *after[5:]] == [*HISTORY[:3], *HISTORY[5:]]


def test_phase_2_replaces_results_by_a_short_text() -> None:
    after = phase(2)

    assert after[3]["content"] == "[Result dropped to save context]"
    assert after[4]["content"] == [{"type": "text", "text": "[Result dropped to save context]"}]


def test_phase_3_drops_reasoning_and_text_and_keeps_the_calls() -> None:
    after = phase(3)

    assert after[2] == assistant("a", "b", x_of_the_client=1)
    assert [message["role"] for message in after] == [
        "developer", "user", "assistant", "tool", "tool", "user", "assistant", "tool", "assistant", "tool",
    ]  # fmt: skip


def test_an_image_without_text_is_dropped_too() -> None:
    shot = result("a", [{"type": "image_url", "image_url": {"url": "data:" + LONG}}])

    after = phase(2, [USER, assistant("a"), shot, assistant("b"), result("b", ""), assistant("c"), result("c", "")])

    assert after[2]["content"] == [{"type": "text", "text": "[Result dropped to save context]"}]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": LONG}},
        {"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "look", "input": LONG}}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "look", "arguments": {"text": LONG}}}]},
    ],
)
def test_a_call_in_any_form_counts_and_stays(message: JsonDict) -> None:
    messages: list[Json] = [USER, message, result("", LONG), assistant("b"), result("b", ""), assistant("c")]

    tags = classify_messages(messages)

    assert (tags.messages[1].type, estimate_messages_tokens(tags.messages[1:2]) > 500) == (MessageType.TOOL_CALL, True)
    assert phase(3, messages)[1] is message


@st.composite
def histories(draw: st.DrawFn) -> list[Json]:
    """Orphan-free histories as clients send them, some with repeated ids."""
    out: list[Json] = [{"role": "system", "content": draw(_TEXTS | _TEXTS.map(parts))}]
    for _ in range(draw(st.integers(0, 10))):
        kind = draw(st.sampled_from(["user", "text", "calls", "calls", "calls"]))
        thoughts: JsonDict = draw(st.sampled_from([{}, {"reasoning_content": "hm " * 50}, {"reasoning": "hm"}]))
        if kind == "user":
            out.append({"role": "user", "content": draw(_TEXTS | _TEXTS.map(parts))})
        elif kind == "text":
            out.append({"role": "assistant", "content": draw(_TEXTS), **thoughts})
        else:
            names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3, unique=True))
            out.append(assistant(*names, **thoughts))
            out += [result(name, draw(_TEXTS | _TEXTS.map(parts))) for name in names]
    return out


@given(histories(), st.integers(1, 3), st.booleans())
@examples(300)
def test_what_is_not_cut_stays_the_same_object_and_no_call_loses_its_result(
    messages: list[Json], keep: int, tiered: bool
) -> None:
    before = copy.deepcopy(messages)
    tags = classify_messages(messages)
    strategy = TieredCompact(keep) if tiered else SlidingWindowCompact(keep)

    for plan in strategy.plans(tags.messages):
        after = apply_cuts(messages, tags, plan.cuts)

        cut = {tags.places[one.index] for one in plan.cuts}
        same = {id(message) for message in after}
        assert all(id(message) in same for place, message in enumerate(messages) if place not in cut)
        assert _unpaired(after) == []
        assert repair_messages(after) == after
    assert messages == before


def _unpaired(messages: list[Any]) -> list[str]:
    found: list[str] = []
    asked: list[str] = []
    for message in messages:
        if message["role"] == "tool" and message["tool_call_id"] in asked:
            asked.remove(message["tool_call_id"])
        elif message["role"] == "tool":
            found.append(message["tool_call_id"])
        else:
            found += asked
            asked = [one["id"] for one in message.get("tool_calls") or []]
    return found + asked
