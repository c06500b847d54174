"""The corrections for each fault, and the role of their messages."""

from __future__ import annotations

import pytest

from forge_proxy.core.chat import ChatRequest, ToolChoice, ToolSpec
from forge_proxy.core.guardrails.nudges import NudgeWording, Problem, correct_calls, correct_text
from forge_proxy.core.guardrails.policy import GuardPolicy
from forge_proxy.core.guardrails.turn import Fault, Turn, open_turn
from forge_proxy.core.messages import Message, MessageType, ToolCall

WORDING = NudgeWording(
    text="text {names}",
    text_with_respond="text {names} or {respond}",
    empty="empty {names}",
    malformed="malformed {names}",
    loop="loop {names}",
    unknown_tool="unknown {tool}: {names}",
    not_allowed="not now {tool}: {names}",
    bad_arguments="bad {tool}: {reasons}",
    not_run="not run {tool}",
)


def turn(choice: ToolChoice) -> Turn:
    request = ChatRequest({}, tools=(ToolSpec("search"), ToolSpec("note")), tool_choice=choice)
    opened = open_turn(request, GuardPolicy(), request_id="r", nudge_text=True)
    assert opened is not None
    return opened


FREE = turn(ToolChoice())
ONE = turn(ToolChoice("required", ("note",)))


@pytest.mark.parametrize(
    ("of", "fault", "sentence"),
    [
        (FREE, Fault.TEXT_ONLY, "text search, note, respond or respond"),
        (ONE, Fault.NO_CALL, "text note"),
        (FREE, Fault.EMPTY, "empty search, note, respond"),
        (ONE, Fault.MALFORMED, "malformed note"),
        (FREE, Fault.LOOP, "loop search, note, respond"),
    ],
)
def test_a_response_without_a_call_is_corrected_in_a_user_message(of: Turn, fault: Fault, sentence: str) -> None:
    assert correct_text(of, fault, "what it said", WORDING) == (
        Message.of(MessageType.TEXT_RESPONSE, "what it said"),
        Message.of(MessageType.RETRY_NUDGE, sentence),
    )


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (Fault.UNKNOWN_TOOL, "unknown serch: search, note, respond"),
        (Fault.NOT_ALLOWED, "not now serch: search, note, respond"),
        (Fault.BAD_ARGUMENTS, "bad serch: `a`: required, missing; `b`: expected string, got 7"),
    ],
)
def test_an_invalid_call_is_corrected_in_a_tool_message(fault: Fault, sentence: str) -> None:
    call = ToolCall("serch", '{"q": 1}', "c1")
    problem = Problem(fault, call, ("`a`: required, missing", "`b`: expected string, got 7"))

    assert correct_calls(FREE, "said", (call,), (problem,), WORDING) == (
        Message.of(MessageType.TOOL_CALL, "said", calls=(call,)),
        Message.of(MessageType.RETRY_NUDGE, sentence, answers=call),
    )


def test_each_call_of_a_failed_batch_gets_a_tool_message() -> None:
    calls = (ToolCall("search", "{}", "c1"), ToolCall("nope", "{}", "c2"), ToolCall("note", "{}", "c3"))
    problems = (Problem(Fault.UNKNOWN_TOOL, calls[1]),)

    messages = correct_calls(FREE, "", calls, problems, WORDING)

    assert [(message.tool_call_id, message.content) for message in messages[1:]] == [
        ("c1", "not run search"),
        ("c2", "unknown nope: search, note, respond"),
        ("c3", "not run note"),
    ]


def test_braces_in_model_output_are_not_filled_in() -> None:
    call = ToolCall("{names}", "{}", "c1")
    problem = Problem(Fault.BAD_ARGUMENTS, call, ("{tool}: {respond} {0} {", "{{x}}"))

    messages = correct_calls(FREE, "{names}", (call,), (problem,), WORDING)

    assert [message.content for message in messages] == ["{names}", "bad {names}: {tool}: {respond} {0} {; {{x}}"]


def test_braces_in_a_wording_that_are_no_field_are_kept() -> None:
    wording = NudgeWording(text_with_respond='Say {"name": "{names}"} {other}')

    assert (
        correct_text(FREE, Fault.TEXT_ONLY, "", wording)[1].content == 'Say {"name": "search, note, respond"} {other}'
    )


@pytest.mark.parametrize("fault", [Fault.TEXT_ONLY, Fault.NO_CALL, Fault.EMPTY, Fault.MALFORMED])
@pytest.mark.parametrize("of", [FREE, ONE], ids=["free", "one"])
def test_corrections_name_only_the_callable_tools(of: Turn, fault: Fault) -> None:
    words = correct_text(of, fault, "")[1].content

    assert all(name in words for name in of.callable_names)
    assert not any(name in words for name in ("search", "respond") if name not in of.callable_names)
    assert "{" not in words


def test_corrections_of_calls_begin_with_the_fault_name() -> None:
    call = ToolCall("nope", "{}", "c1")

    def said(fault: Fault) -> str:
        return correct_calls(FREE, "", (call,), (Problem(fault, call, ("x: required, missing",)),))[1].content

    assert said(Fault.UNKNOWN_TOOL).startswith("[UnknownTool] nope")
    assert said(Fault.BAD_ARGUMENTS).startswith("[ToolArgValidationError] ")
    assert "x: required, missing" in said(Fault.BAD_ARGUMENTS)


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (Problem(Fault.UNKNOWN_TOOL, ToolCall("nope")), "nope: unknown_tool"),
        (Problem(Fault.BAD_ARGUMENTS, ToolCall("note"), ("a", "b")), "note: a; b"),
    ],
)
def test_the_description_of_a_problem_names_its_tool(problem: Problem, words: str) -> None:
    assert str(problem) == words
