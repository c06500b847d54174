"""Responses that ended at the token limit (`finish_reason: "length"`): a complete call is delivered, a cut one never,
and the text reports it, whole and streamed.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forge_proxy.core.guardrails import GuardPolicy
from tests.api.test_cuts import ARGUMENTS, TEXTS
from tests.api.test_mistakes import ASK, PARIS, PARIS_TEXT, RIGHT
from tests.fakes.says import Said
from tests.fakes.scripted import Answer, JsonDict, chat
from tests.properties import examples

MARKED = f'<tool_call>\n{{"name": "get_weather", "arguments": {PARIS_TEXT}}}\n</tool_call>'
CODER = "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>"
LIMITED: JsonDict = {"max_tokens": 512}
DEMANDED: JsonDict = {"tool_choice": "required"}
OF_CLIENT = "the token limit (512 tokens); raise max_tokens or ask for smaller steps."
OF_SERVER = "the model server's token limit; set max_tokens, shorten the conversation or ask for smaller steps."
CUT_OFF = f"was cut off at {OF_CLIENT}"
HALF_OPENERS = ("<tool_call>", "<tool_c", "[TOOL_CALLS]", "[TOOL_C", "<function=get_w", "<|tool_call|>", "<|pyth")


def native(*arguments: str, tool: str = "get_weather", text: str | None = None) -> Said:
    return Said(text, tuple((tool, each) for each in arguments), finish="length")


def written(text: str) -> Said:
    return Said(text, finish="length")


def respond_cut(arguments: str) -> Said:
    return Said(calls=(("respond", arguments),), finish="length")


async def both_ways(script: list[Said], body: JsonDict, policy: GuardPolicy | None = None) -> Answer:
    """The whole response, which the streamed one equals."""
    fixed = {"x-request-id": "same"}
    whole = await chat(script, body, policy=policy, headers=fixed)
    if whole.status == 200:
        recut = [replace(said, piece=1) for said in script]
        streamed = await chat(recut, body, policy=policy, headers=fixed, stream=True, cut=7)
        same = [replace(answer, asked=[], usage=None, tokens=None) for answer in (whole, streamed)]
        assert same[0] == same[1]
    return whole


@pytest.mark.parametrize("demanded", [{}, DEMANDED], ids=["free", "demanded"])
@pytest.mark.parametrize("limit", [{}, LIMITED], ids=["server's limit", "client's limit"])
@pytest.mark.parametrize(
    ("said", "text", "marks"),
    [
        (native(PARIS_TEXT), None, None),
        (native(PARIS_TEXT, text="Looking."), "Looking.", None),
        (native(PARIS_TEXT, PARIS_TEXT[:9]), None, "dropped a call that was cut off at the token limit"),
        (native(PARIS_TEXT, ""), None, "dropped a call that was cut off at the token limit"),
        (native(PARIS_TEXT, text="Looking. <tool_c"), "Looking.", "dropped a call"),
        (written(MARKED), None, "rescued get_weather"),
        (written(f"{MARKED}\n{MARKED[:-40]}"), None, "dropped a call"),
    ],
    ids=["native", "with text", "and one cut", "and one without arguments", "and markup", "text", "text, and one cut"],
)
async def test_a_complete_call_is_delivered_as_one_that_clients_run(
    said: Said, text: str | None, marks: str | None, limit: JsonDict, demanded: JsonDict
) -> None:
    answer = await both_ways([said], {**ASK, **limit, **demanded})

    assert (answer.calls, answer.finish) == ([("get_weather", PARIS)], "tool_calls")
    assert (answer.text.rstrip() if answer.text else None) == text
    assert (marks or "") in (answer.marks or "") if marks else answer.marks is None


CUT = {
    "native": (native(PARIS_TEXT[:-1]), "call of get_weather"),
    "native, mistakable for complete": (native('{"city": "Paris", "days": 3'), "call of get_weather"),
    "native without arguments": (native(""), "call of get_weather"),
    "native of an unknown tool": (native('{"a', tool="nonsense"), "tool call"),
    "two native ones": (native(PARIS_TEXT[:5]), "call of get_weather"),
    "text": (written(MARKED[:-24]), "call of get_weather"),
    "text behind the name": (written(MARKED[:40]), "call of get_weather"),
    "text of another form": (written(CODER[:-14]), "call of get_weather"),
    "text without markup": (written(f'{{"name": "get_weather", "arguments": {PARIS_TEXT[:-9]}'), "call of get_weather"),
    "half an opener": (written("<tool_c"), "tool call"),
    "an opener": (written("<tool_call>\n"), "tool call"),
}


@pytest.mark.parametrize(("said", "what"), CUT.values(), ids=CUT.keys())
async def test_a_call_cut_by_the_clients_limit_is_retried_within_it_and_then_reported(said: Said, what: str) -> None:
    mended = await both_ways([said, RIGHT], {**ASK, **LIMITED})
    answer = await both_ways([said, said], {**ASK, **LIMITED})

    assert (mended.calls, mended.attempts) == ([("get_weather", PARIS)], 2)
    assert [asked["max_tokens"] for asked in mended.asked] == [LIMITED["max_tokens"]] * 2
    assert "shorter call" in str(mended.asked[1]["messages"][-1])
    assert (answer.text, answer.calls) == (f"The model's {what} was cut off at {OF_CLIENT}", [])
    assert (answer.finish, answer.outcome, answer.attempts) == ("length", "exhausted", 2)
    assert "cut off at the token limit" in (answer.marks or "")


@pytest.mark.parametrize(("said", "what"), CUT.values(), ids=CUT.keys())
async def test_a_call_cut_by_the_servers_limit_is_retried_and_reported_if_it_is_cut_again(
    said: Said, what: str
) -> None:
    mended = await both_ways([said, RIGHT], ASK)
    answer = await both_ways([said, said], ASK)

    assert (mended.calls, mended.attempts) == ([("get_weather", PARIS)], 2)
    assert (answer.text, answer.finish) == (f"The model's {what} was cut off at {OF_SERVER}", "length")


@pytest.mark.parametrize("limit", [{}, LIMITED], ids=["server's limit", "client's limit"])
@pytest.mark.parametrize(("said", "what"), CUT.values(), ids=CUT.keys())
async def test_a_required_call_that_remains_cut_is_an_error_that_names_the_limit(
    said: Said, what: str, limit: JsonDict
) -> None:
    mended = await both_ways([said, RIGHT], {**ASK, **limit, **DEMANDED})
    answer = await both_ways([said] * 4, {**ASK, **limit, **DEMANDED})

    assert mended.calls == [("get_weather", PARIS)]
    assert (answer.status, answer.error and answer.error["code"]) == (502, "tool_choice_unsatisfied")
    assert answer.error
    assert "token limit" in answer.error["message"]


@pytest.mark.parametrize("accepts", ["nudge", "accept"])
@pytest.mark.parametrize("begun", [*HALF_OPENERS, MARKED[:-24], MARKED[:40]])
async def test_text_before_a_cut_call_is_delivered_without_the_markup(begun: str, accepts: str) -> None:
    policy = GuardPolicy.model_validate({"text_responses": accepts})

    answer = await both_ways([written(f"Let me see.\n{begun}")] * 2, {**ASK, **LIMITED}, policy)

    assert answer.text is not None
    assert re.match(r"Let me see\.\n+The model's (tool call|call of get_weather) was cut off", answer.text)
    assert begun not in answer.text


@pytest.mark.parametrize(
    "text",
    ["It is su", "if a <", "see <t", "Use `<tool_call>", "{", '{"name": "Bob", "age"', "list[", "get_wea", "a <| b"],
)
async def test_text_that_begins_no_call_is_delivered_as_it_is(text: str) -> None:
    answer = await both_ways([written(f"Well, {text}")], {**ASK, **LIMITED})

    assert (answer.text, answer.finish, answer.outcome) == (f"Well, {text}", "length", "clean")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (respond_cut('{"message": "It is su'), "It is su"),
        (written('<tool_call>{"name": "respond", "arguments": {"message": "It is'), f"The model's tool call {CUT_OFF}"),
        (respond_cut('{"mess'), f"The model's tool call {CUT_OFF}"),
        (
            Said(calls=(("respond", '{"message": "Hi."}'), ("get_weather", '{"ci')), finish="length"),
            f"Hi.\n\nThe model's call of get_weather was cut off at {OF_CLIENT}",
        ),
    ],
    ids=["begun", "begun in text", "without a message", "before a call that was cut"],
)
async def test_a_message_of_the_respond_tool_is_text_that_was_cut(said: Said, text: str) -> None:
    answer = await both_ways([said] * 2, {**ASK, **LIMITED})

    assert (answer.text, answer.calls, answer.finish) == (text, [], "length")


async def test_a_complete_message_of_the_respond_tool_is_complete_whatever_the_finish_reason() -> None:
    answer = await both_ways([respond_cut('{"message": "It is sunny."}')], {**ASK, **LIMITED})

    assert (answer.text, answer.finish, answer.outcome) == ("It is sunny.", "stop", "clean")


async def test_a_partly_sent_message_ends_where_its_arguments_are_cut() -> None:
    broken = Said(calls=(("respond", '{"message": "It is su'),), finish="tool_calls")

    answer = await chat([broken], ASK, stream=True)

    assert (answer.text, answer.calls, answer.finish) == ("It is su", [], "stop")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (written(""), "before it gave an answer"),
        (Said(finish="length"), "before it gave an answer"),
        (Said(reasoning="Let me", finish="length"), "while it was reasoning and gave no answer"),
        (written("<think>Let me"), "while it was reasoning and gave no answer"),
    ],
    ids=["empty", "nothing", "reasoning", "reasoning in text"],
)
async def test_a_cut_response_without_text_contains_the_reason(said: Said, reason: str) -> None:
    answer = await both_ways([said], {**ASK, **LIMITED})

    assert answer.text is not None
    assert answer.text.startswith(f"The model reached the token limit (512 tokens) {reason}; raise max_tokens")
    assert answer.finish == "length"


async def test_a_complete_invalid_call_is_corrected_as_without_a_limit() -> None:
    answer = await both_ways([native('{"city": "Paris"}'), RIGHT], {**ASK, **LIMITED})

    assert (answer.calls, answer.attempts) == ([("get_weather", PARIS)], 2)
    assert "`days`: required, missing" in answer.asked[1]["messages"][-1]["content"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("window", "body", "room"),
    [(4096, {}, 4096 - 10 - 16), (28, {}, None), (None, {}, None), (4096, {"n_predict": -1}, None)],
    ids=[
        "the server's limit was lower",
        "the window is full",
        "the window is not known",
        "no limit, said by the client",
    ],
)
async def test_a_retry_requests_the_whole_rest_of_the_window(
    window: int | None, body: JsonDict, room: int | None, stream: bool
) -> None:
    cut = native(PARIS_TEXT[:9])

    answer = await chat([cut, RIGHT], {**ASK, **body}, stream=stream, window=window)

    assert answer.calls == [("get_weather", PARIS)]
    assert [asked.get("max_tokens") for asked in answer.asked] == [None, room]


async def test_a_complete_first_text_is_delivered_if_its_retry_is_cut() -> None:
    cut = native(PARIS_TEXT[:9])

    answer = await both_ways([Said(text="It is sunny."), cut, cut], ASK)

    assert (answer.text, answer.finish, answer.calls) == ("It is sunny.", "stop", [])


# A line break ends what might have become a tag: `<tool` before one is text.
UNFINISHED = re.compile(r"(?:<tool_call>\s*|\[TOOL_CALLS\]\s*|<tool\w*|\[TOOL_CALLS?|<function=?\w*)\Z")


def _without_end(text: str) -> str:
    return text[: -len(text) // 3]


LIMIT_REPLIES = st.builds(
    Said,
    text=st.none() | TEXTS | TEXTS.map(_without_end),
    calls=st.lists(st.tuples(st.sampled_from(["get_weather", "respond", "nonsense"]), ARGUMENTS), max_size=2).map(
        tuple
    ),
    reasoning=st.none() | TEXTS,
    finish=st.sampled_from(["length", "length", "stop"]),
)


@pytest.mark.parametrize("accepts", ["nudge", "accept"])
@examples(150)
@example(script=[written("```json\n`<tool_call>")] * 4, limited=False)  # an opener in an open fence is code
@given(script=st.lists(LIMIT_REPLIES, min_size=4, max_size=4), limited=st.booleans())
def test_text_with_length_is_never_empty_and_never_ends_in_an_opener(
    accepts: str, script: list[Said], limited: bool
) -> None:
    policy = GuardPolicy.model_validate({"text_responses": accepts})

    answer = asyncio.run(both_ways(script, {**ASK, **(LIMITED if limited else {})}, policy))

    if answer.status == 200 and answer.finish == "length":
        assert not answer.calls
        assert (answer.text or "").strip()
        in_code = any((answer.text or "").count(mark) % 2 for mark in ("`", "```"))
        assert in_code or not UNFINISHED.search(answer.text or "")
