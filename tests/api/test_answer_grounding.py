"""A final answer that does not agree with the results of tools is retried or reported, as `answer_grounding` says."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.core.guardrails import GuardPolicy, StreamGate, open_turn
from forge_proxy.core.stream import CallDelta, Delta
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.api.test_mistakes import both
from tests.fakes.says import Said, respond
from tests.fakes.scripted import JsonDict, chat

RETRY = GuardPolicy(answer_grounding="retry", text_responses="nudge", max_text_nudges=0, on_early_end="accept")
AUTO = RETRY.model_copy(update={"answer_grounding": "auto"})
REPORT = RETRY.model_copy(update={"answer_grounding": "report"})
FIND: JsonDict = {"type": "function", "function": {"name": "find_order", "parameters": {"type": "object"}}}
FINISH: JsonDict = {
    "type": "function",
    "function": {"name": "attempt_completion", "parameters": {"type": "object", "properties": {"result": {}}}},
}
CALL: JsonDict = {"id": "h1", "type": "function", "function": {"name": "find_order", "arguments": "{}"}}
BODY: JsonDict = {
    "model": "scripted",
    "messages": [
        {"role": "user", "content": "Find the order of Anna."},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "h1", "content": '{"order": "ORD-4711"}'},
    ],
    "tools": [FIND],
}
WITH_TERMINAL: JsonDict = {**BODY, "tools": [FIND, FINISH]}


def finish(result: str) -> Said:
    return Said(calls=(("attempt_completion", f'{{"result": "{result}"}}'),))


CLIENTS = pytest.mark.parametrize(
    ("body", "say"),
    [(BODY, Said), (BODY, respond), (WITH_TERMINAL, finish)],
    ids=["text", "respond", "a terminal tool"],
)
CORRECTED = pytest.mark.parametrize(
    ("body", "say", "role", "what"),
    [(BODY, Said, "user", "Your answer"), (WITH_TERMINAL, finish, "tool", "attempt_completion")],
    ids=["text", "a terminal tool"],
)


def read_answer(answer: Any) -> str:
    return answer.calls[0][1]["result"] if answer.calls else answer.text


def read_marks(answer: Any) -> list[str]:
    """The interventions, without that of the terminal tool."""
    return [mark for mark in (answer.marks or "").split("; ") if mark and not mark.startswith("respond not offered")]


@both
@CORRECTED
async def test_the_retry_names_the_value_and_quotes_the_result(
    body: JsonDict, say: Any, role: str, what: str, stream: bool
) -> None:
    answer = await chat([say("It is ORD-4712."), say("It is ORD-4711.")], body, stream=stream, policy=RETRY)

    assert (read_answer(answer), answer.outcome, answer.attempts) == ("It is ORD-4711.", "retried", 2)
    correction = answer.asked[1]["messages"][-1]
    assert correction["role"] == role
    assert correction["content"] == (
        f'[UngroundedAnswer] {what} names ORD-4712, which is not in the result: {{"order": "ORD-4711"}}'
    )
    assert read_marks(answer) == []


@both
@CORRECTED
async def test_an_answer_without_anything_of_the_result_is_retried(
    body: JsonDict, say: Any, role: str, what: str, stream: bool
) -> None:
    answer = await chat([say("Done."), say("ORD-4711")], body, stream=stream, policy=RETRY)

    assert (read_answer(answer), answer.attempts) == ("ORD-4711", 2)
    correction = answer.asked[1]["messages"][-1]["content"]
    assert correction == f'[UngroundedAnswer] {what} does not contain the result: {{"order": "ORD-4711"}}'


@both
@CORRECTED
async def test_a_model_that_insists_twice_gets_its_answer_delivered(
    body: JsonDict, say: Any, role: str, what: str, stream: bool
) -> None:
    answer = await chat([say("It is ORD-4712.")] * 3, body, stream=stream, policy=RETRY)

    assert (read_answer(answer), answer.outcome, answer.attempts) == ("It is ORD-4712.", "retried", 3)
    assert read_marks(answer) == ["ungrounded answer: 1 value not in the conversation"]  # never the value


@both
async def test_if_no_retry_agrees_with_the_results_the_first_text_is_delivered(stream: bool) -> None:
    answer = await chat([Said("It is A-1234."), Said("B-1234!"), Said("C-1234!")], BODY, stream=stream, policy=RETRY)

    assert (answer.text, answer.attempts) == ("It is A-1234.", 3)


@both
async def test_after_a_message_of_respond_the_model_gets_the_request_without_that_tool(stream: bool) -> None:
    script = [respond("It is ORD-4712."), Said("It is ORD-4711.")]

    answer = await chat(script, BODY, stream=stream, policy=RETRY)

    assert (answer.text, answer.outcome, answer.attempts) == ("It is ORD-4711.", "retried", 2)
    assert answer.asked[1]["messages"] == BODY["messages"]
    assert answer.asked[1]["tools"] == BODY["tools"]


@both
async def test_if_the_text_after_a_message_is_wrong_as_well_it_is_corrected_once(stream: bool) -> None:
    script = [respond("It is ORD-4712."), Said("Done."), Said("It is ORD-4711.")]

    answer = await chat(script, BODY, stream=stream, policy=RETRY)

    assert (answer.text, answer.attempts) == ("It is ORD-4711.", 3)
    assert "[UngroundedAnswer]" in answer.asked[2]["messages"][-1]["content"]


@both
async def test_if_no_text_after_a_message_agrees_the_message_is_delivered(stream: bool) -> None:
    script = [respond("It is ORD-4712."), Said("Done."), Said("Really done.")]

    answer = await chat(script, BODY, stream=stream, policy=RETRY)

    assert (answer.text, answer.attempts) == ("It is ORD-4712.", 3)


@both
@CLIENTS
async def test_with_report_the_answer_is_delivered_at_once(body: JsonDict, say: Any, stream: bool) -> None:
    answer = await chat([say("It is A-12345 or B-12345.")], body, stream=stream, policy=REPORT)

    assert (read_answer(answer), answer.outcome, answer.attempts) == ("It is A-12345 or B-12345.", "clean", 1)
    assert read_marks(answer) == ["ungrounded answer: 2 values not in the conversation"]


@CLIENTS
async def test_an_answer_with_nothing_of_the_result_is_reported(body: JsonDict, say: Any) -> None:
    answer = await chat([say("Done.")], body, policy=REPORT)

    assert read_marks(answer) == ["ungrounded answer: nothing of the latest result"]


@CLIENTS
async def test_by_default_a_wrong_code_is_retried_if_no_stream_waits_for_it(body: JsonDict, say: Any) -> None:
    right = finish("It is ORD-4711.") if say is finish else Said("It is ORD-4711.")
    answer = await chat([say("It is ORD-4712."), right], body, policy=AUTO)

    assert (read_answer(answer), answer.outcome, answer.attempts) == ("It is ORD-4711.", "retried", 2)


async def test_by_default_a_streamed_message_is_reported_and_the_call_of_a_terminal_tool_retried() -> None:
    message = await chat([respond("It is ORD-4712.")], BODY, stream=True, policy=AUTO)
    call = await chat([finish("ORD-4712"), finish("ORD-4711")], WITH_TERMINAL, stream=True, policy=AUTO)

    assert (message.text, message.attempts) == ("It is ORD-4712.", 1)
    assert read_marks(message) == ["ungrounded answer: 1 value not in the conversation"]
    assert (read_answer(call), call.attempts) == ("ORD-4711", 2)


@CLIENTS
async def test_with_off_nothing_is_checked(body: JsonDict, say: Any) -> None:
    policy = RETRY.model_copy(update={"answer_grounding": "off"})

    answer = await chat([say("It is ORD-4712.")], body, policy=policy)

    assert (answer.attempts, read_marks(answer)) == (1, [])


@both
async def test_a_failed_retry_delivers_the_first_answer(stream: bool) -> None:
    fails = Said(status=500, body={"error": {"message": "boom"}})

    text = await chat([Said("ORD-4712"), fails], BODY, stream=stream, policy=RETRY)
    ended = await chat([finish("ORD-4712"), fails], WITH_TERMINAL, stream=stream, policy=RETRY)

    assert (text.status, text.text) == (200, "ORD-4712")
    assert (ended.status, read_answer(ended)) == (200, "ORD-4712")


@both
async def test_the_model_may_make_another_call_instead(stream: bool) -> None:
    other = Said(calls=(("find_order", '{"year": 2026}'),))

    answer = await chat([Said("ORD-4712"), other], BODY, stream=stream, policy=RETRY)

    assert answer.calls == [("find_order", {"year": 2026})]


def release(body: JsonDict, deltas: list[Delta], policy: GuardPolicy) -> str:
    """What is sent before the verdict."""
    turn = open_turn(decode_request(body), policy, request_id="r", nudge_text=False)
    assert turn is not None
    gate = StreamGate(turn)
    return "".join(out.text or "" for delta in deltas if (out := gate.take(delta)))


@pytest.mark.parametrize(
    "deltas",
    [
        [Delta(text="It is "), Delta(text="ok, really. ")],
        [Delta(calls=(CallDelta(0, "c", "respond", '{"message": "It is ok'),)),
         Delta(calls=(CallDelta(0, "", "", '"}'),))],
    ],
    ids=["text", "respond"],
)  # fmt: skip
def test_only_an_answer_that_may_be_retried_waits_for_the_verdict(deltas: list[Delta]) -> None:
    hello = {**BODY, "messages": [{"role": "user", "content": "Hello!"}]}

    assert release(BODY, deltas, RETRY) == ""
    assert release(BODY, deltas, REPORT).startswith("It is ok")
    assert release({**BODY, "stream": True}, deltas, AUTO).startswith("It is ok")
    assert release(hello, deltas, RETRY).startswith("It is ok")


def test_off_may_be_written_as_yaml_reads_it() -> None:
    assert GuardPolicy.model_validate({"answer_grounding": False}).answer_grounding == "off"
