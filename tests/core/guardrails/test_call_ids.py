"""The ids of calls: the model server's own unless they are empty or not unique."""

from __future__ import annotations

import pytest

from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.guardrails import Accept, GuardPolicy, judge, open_turn
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import Reply

HISTORY: tuple[JsonObject, ...] = (
    {"role": "user", "content": "ping twice"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "call_0", "type": "function"}, {"id": None}]},
    {"role": "tool", "tool_call_id": "call_0", "content": "pong"},
)


def ids(*said: str, messages: tuple[JsonObject, ...] = HISTORY) -> list[str]:
    """The ids under which calls arrive that came under those."""
    request = ChatRequest({}, messages=messages, tools=(ToolSpec("ping"),))
    turn = open_turn(request, GuardPolicy(), request_id="r", nudge_text=True)
    assert turn is not None
    verdict = judge(turn, Reply(calls=tuple(ToolCall("ping", f'{{"n": {n}}}', given) for n, given in enumerate(said))))
    assert isinstance(verdict, Accept)
    return [call.id for call in verdict.answer.calls]


def test_a_new_id_is_kept() -> None:
    assert ids("call_1", "call_2") == ["call_1", "call_2"]


@pytest.mark.parametrize("said", [("call_0", "call_1"), ("", "call_1")], ids=["of an earlier call", "empty"])
def test_an_empty_or_used_id_is_replaced(said: tuple[str, str]) -> None:
    first, second = ids(*said)

    assert first not in ("", "call_0")
    assert second == "call_1"


def test_two_calls_of_one_response_never_share_an_id() -> None:
    first, second = ids("call_1", "call_1")

    assert first == "call_1" != second


def test_ids_stay_unique_if_the_server_numbers_calls_per_response() -> None:
    first = ids("call_0")
    later: JsonObject = {"role": "assistant", "content": None, "tool_calls": [{"id": first[0], "type": "function"}]}

    assert ids("call_0", messages=(*HISTORY, later)) not in (first, ["call_0"])
