"""A tool whose calls never return a result, while others do, ends the client's task."""

from __future__ import annotations

from typing import Any

from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.guardrails.client_history import ClientHistory, ToolSetRecord
from forge_proxy.core.guardrails.policy import GuardPolicy
from forge_proxy.core.guardrails.turn import Outcome, Turn, open_turn
from forge_proxy.core.guardrails.verdict import FinalAnswer
from forge_proxy.core.messages import ToolCall

TOOLS = (ToolSpec("look"), ToolSpec("deliver"))


def request(*answered: str, tools: tuple[ToolSpec, ...] = TOOLS) -> ChatRequest:
    """A request after one call of each of these tools, which all have results."""
    calls: list[Any] = [
        {"id": f"c{place}", "function": {"name": name, "arguments": "{}"}} for place, name in enumerate(answered)
    ]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
    later = [{"role": "assistant", "tool_calls": calls}, *results] if calls else []
    return ChatRequest({}, ({"role": "user", "content": "Go."}, *later), tools=tools)


def turn(tools: tuple[ToolSpec, ...] = TOOLS) -> Turn:
    opened = open_turn(request(tools=tools), GuardPolicy(), request_id="r", nudge_text=True)
    assert opened is not None
    return opened


def answer(*names: str) -> FinalAnswer:
    return FinalAnswer(None, tuple(ToolCall(name) for name in names), "tool_calls", Outcome.CLEAN, 1)


def converse(history: ClientHistory, times: int) -> ToolSetRecord:
    """Conversations of a look and a delivery, which the client never answers."""
    for _ in range(times):
        history.record_request(request(), 0.0).record_answers(turn(), [answer("look")])
        history.record_request(request("look"), 0.0).record_answers(turn(), [answer("deliver")])
    return history.record_request(request(), 0.0)


def test_three_calls_without_a_result_make_a_tool_terminal() -> None:
    assert [converse(ClientHistory(), times).find_unanswered_tools() for times in (2, 3)] == [(), ("deliver",)]


def test_a_client_that_answers_no_call_at_all_has_no_terminal_tool() -> None:
    history = ClientHistory()
    for _ in range(9):
        history.record_request(request(), 0.0).record_answers(turn(), [answer("deliver")])

    assert history.record_request(request(), 0.0).find_unanswered_tools() == ()


def test_a_result_that_comes_later_revokes_it_for_good() -> None:
    history = ClientHistory()
    converse(history, 3)

    revoked = history.record_request(request("deliver"), 0.0).find_unanswered_tools()

    assert (revoked, converse(history, 9).find_unanswered_tools()) == ((), ())


def test_a_result_beside_others_in_one_turn_counts() -> None:
    history = ClientHistory()
    converse(history, 3)

    assert history.record_request(request("look", "deliver"), 0.0).find_unanswered_tools() == ()


def test_two_calls_in_one_answer_are_one_delivery() -> None:
    history = ClientHistory()
    converse(history, 1)

    history.record_request(request(), 0.0).record_answers(turn(), [answer("deliver", "deliver")])

    assert history.record_request(request(), 0.0).find_unanswered_tools() == ()


def test_each_set_of_tools_is_judged_for_itself_in_any_order() -> None:
    history = ClientHistory()
    converse(history, 3)
    others = (*TOOLS, ToolSpec("third"))

    reversed_tools = history.record_request(request(tools=TOOLS[::-1]), 0.0)

    assert reversed_tools.find_unanswered_tools() == ("deliver",)
    assert history.record_request(request(tools=others), 0.0).find_unanswered_tools() == ()


def test_only_names_of_offered_tools_are_stored() -> None:
    history = ClientHistory()
    record = history.record_request(request("look", "unknown"), 0.0)
    record.record_answers(turn(), [answer("deliver", "invented")])

    assert (record.answered, record.unanswered) == ({"look"}, {"deliver": 1})


def test_a_request_without_tools_leaves_no_record() -> None:
    history = ClientHistory()
    history.record_request(request(tools=()), 0.0).record_answers(turn(), [answer("deliver")])

    assert not history.records


def test_a_disabled_history_has_no_evidence() -> None:
    history = ClientHistory()
    history.is_enabled = False

    assert converse(history, 9).find_unanswered_tools() == ()
    assert not history.records


def test_what_is_stored_is_bounded() -> None:
    history = ClientHistory()
    for number in range(200):
        converse(history, 1)
        tools = tuple(ToolSpec(f"tool_{number}_{place}") for place in range(100))
        names = [tool.name for tool in tools]
        history.record_request(request(*names[:90], tools=tools), 0.0).record_answers(turn(tools), [answer(*names)])
    latest = list(history.records.values())[-1]

    assert len(history.records) == 128
    assert (len(latest.tools), latest.tool_count) == (64, 100)
    assert (len(latest.answered), len(latest.unanswered)) == (64, 36)
    assert any(record.tools == ("deliver", "look") for record in history.records.values())  # it is in use
