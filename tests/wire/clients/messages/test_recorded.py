"""What Claude Code, opencode and qwen-code send, recorded and shortened: all of it is accepted, and a conversation's
prompt begins as the prompt of the turn before.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from forge_proxy.wire.clients.messages.request import decode_request

JsonDict = dict[str, Any]


@dataclass(frozen=True)
class RecordedRequest:
    """One request of a client, and its number in the conversation."""

    client: str
    turn: int
    path: str
    headers: dict[str, str]
    body: JsonDict


def read_recorded() -> list[RecordedRequest]:
    lines = Path(__file__).with_name("recorded.jsonl").read_text(encoding="utf-8").splitlines()
    return [RecordedRequest(**json.loads(line)) for line in lines]


RECORDED = read_recorded()
TURNS = [
    (first, second) for first, second in pairwise(RECORDED) if first.client == second.client and "tools" in first.body
]
"""Consecutive requests of a conversation; opencode first requests a title, without tools."""


def prompt_of(body: JsonDict) -> JsonDict:
    """Return the parts of a request's prompt that the model server receives."""
    chat = decode_request(body).body
    return {"messages": chat["messages"], "tools": chat.get("tools")}


def texts(value: Any) -> list[str]:
    """All strings in a JSON value, without those of schemas."""
    if isinstance(value, str):
        return [value]
    items: Sequence[Any] = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for item in items for text in texts(item)]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: f"{one.client}-{one.turn}")
def test_a_recorded_request_is_decoded(recorded: RecordedRequest) -> None:
    chat = decode_request(recorded.body)

    deferred = [tool["name"] for tool in recorded.body.get("tools", []) if tool.get("defer_loading")]
    assert [tool.name for tool in chat.tools] == [
        tool["name"] for tool in recorded.body.get("tools", []) if tool["name"] not in deferred
    ]
    assert (chat.model, chat.limit) == (recorded.body["model"], recorded.body["max_tokens"])
    assert chat.stream
    assert chat.include_usage
    assert {"messages", "model", "max_tokens", "stream", "stream_options"} <= set(chat.body)
    assert set(chat.body) <= {
        "messages", "model", "max_tokens", "stream", "stream_options", "tools", "tool_choice", "user", "temperature",
        "reasoning_effort", "chat_template_kwargs",
    }  # fmt: skip
    assert not [what for what in chat.dropped if "unknown" in what]


def test_there_are_turns_of_four_clients() -> None:
    assert [(first.client, first.turn) for first, _ in TURNS] == [
        ("claude", 1), ("opencode-anthropic", 2), ("qwen-anthropic", 1), ("claude-sonnet", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), TURNS, ids=lambda one: f"{one.client}-{one.turn}")
def test_the_prompt_of_a_turn_begins_with_the_prompt_of_the_turn_before(
    first: RecordedRequest, second: RecordedRequest
) -> None:
    before, after = prompt_of(first.body), prompt_of(second.body)

    assert before["tools"] == after["tools"]
    assert before["messages"] == after["messages"][: len(before["messages"])]
    assert len(after["messages"]) > len(before["messages"])


@pytest.mark.parametrize("version", ["2.1.329.d79", "2.1.330.a01"])
def test_the_attribution_of_claude_code_is_not_in_the_prompt(version: str) -> None:
    (claude, *_) = RECORDED
    line = f"x-anthropic-billing-header: cc_version={version}; cc_entrypoint=sdk-cli; cch=1a2b3;"
    system: list[Any] = [{"type": "text", "text": line}, *claude.body["system"][1:]]

    body: Any = {**claude.body, "system": system}
    chat = decode_request(body)

    assert "x-anthropic-billing-header" not in json.dumps(chat.body)
    assert prompt_of(body) == prompt_of(claude.body)
    assert chat.anthropic["system"] == [{"type": "text", "text": line}]


def test_the_attribution_is_removed_from_a_system_prompt_that_is_text() -> None:
    system = "x-anthropic-billing-header: cc_version=1;\nYou are an agent."

    chat = decode_request({"messages": [{"role": "user", "content": "hi"}], "system": system})

    assert chat.messages[0] == {"role": "system", "content": "You are an agent."}


def test_no_text_of_a_prompt_is_lost() -> None:
    for recorded in RECORDED:
        chat = decode_request(recorded.body)
        received = "\n".join(texts(list(chat.messages)))
        for text in texts([recorded.body["messages"], recorded.body["system"]]):
            if not text.startswith(("x-anthropic-billing-header", "toolu_", "ephemeral", "text", "tool_")):
                assert text in received or text in ("user", "assistant", "system")
