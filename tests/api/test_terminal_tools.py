"""A client with a terminal tool gets no `respond` tool, and its plain text is retried like an invalid call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forge_proxy.core.guardrails import GuardPolicy
from tests.api.test_mistakes import ASK, PARIS, RIGHT, WEATHER
from tests.fakes.says import Said, respond
from tests.fakes.scripted import JsonDict, chat

both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
DONE: JsonDict = {
    "type": "function",
    "function": {
        "name": "attempt_completion",
        "parameters": {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]},
    },
}
CLINE: JsonDict = {**ASK, "tools": [WEATHER, DONE]}
END = Said(calls=(("attempt_completion", '{"result": "Sunny."}'),))
TEXTS = [Said(text=f"Text {number}.") for number in range(1, 5)]
NUDGE = GuardPolicy(text_responses="nudge")
MARK = "respond not offered: attempt_completion ends the task (name)"


def offered(asked: JsonDict) -> list[str]:
    return [tool["function"]["name"] for tool in asked["tools"]]


@both
async def test_respond_is_not_offered_beside_a_terminal_tool(stream: bool) -> None:
    answer = await chat([END], CLINE, stream=stream)

    assert offered(answer.asked[0]) == ["get_weather", "attempt_completion"]
    assert (answer.calls, answer.outcome) == ([("attempt_completion", {"result": "Sunny."})], "clean")
    assert answer.marks == MARK


@pytest.mark.parametrize(
    ("body", "patterns"),
    [
        (ASK, ()),
        (CLINE, ("!attempt_completion",)),
        (CLINE, ("!*",)),
        ({**CLINE, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [
            {"type": "function", "function": {"name": "get_weather"}}]}}}, ()),
    ],
    ids=["no terminal tool", "excluded by its name", "none is recognized", "excluded by tool_choice"],
)  # fmt: skip
async def test_respond_is_offered_otherwise(body: JsonDict, patterns: tuple[str, ...]) -> None:
    answer = await chat([respond("Hi.")], body, policy=GuardPolicy(terminal_tools=patterns))

    assert offered(answer.asked[0])[-1] == "respond"
    assert (answer.text, answer.marks) == ("Hi.", None)


async def test_a_configured_tool_is_terminal() -> None:
    answer = await chat([RIGHT], ASK, policy=GuardPolicy(terminal_tools=("get_*",)))

    assert offered(answer.asked[0]) == ["get_weather"]
    assert answer.marks == "respond not offered: get_weather ends the task (configuration)"


async def test_several_terminal_tools_are_counted() -> None:
    answer = await chat([RIGHT], CLINE, policy=GuardPolicy(terminal_tools=("*",)))

    assert answer.marks == "respond not offered: get_weather and 1 more end the task (configuration)"


@both
async def test_plain_text_is_retried_up_to_the_retry_budget(stream: bool) -> None:
    answer = await chat([*TEXTS[:3], END], CLINE, stream=stream, policy=NUDGE)

    assert (answer.text, answer.calls) == (None, [("attempt_completion", {"result": "Sunny."})])
    assert (answer.outcome, answer.attempts) == ("retried", 4)
    correction = "Call one of: get_weather, attempt_completion. To finish the task, call attempt_completion."
    assert [message["content"] for message in answer.asked[-1]["messages"][1:]] == [
        part for text in TEXTS[:3] for part in (text.text, f"That was not a valid tool call. {correction}")
    ]


@both
async def test_the_first_text_is_delivered_if_every_retry_brings_text(stream: bool) -> None:
    answer = await chat(TEXTS, CLINE, stream=stream, policy=NUDGE)

    assert (answer.text, answer.calls, answer.finish) == ("Text 1.", [], "stop")
    assert (answer.outcome, answer.attempts) == ("retried", 4)
    assert answer.marks == MARK


@both
@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_the_first_text_is_delivered_if_a_later_one_is_incomplete(finish: str, stream: bool) -> None:
    answer = await chat([TEXTS[0], Said(text="Text 2 is", finish=finish)], CLINE, stream=stream, policy=NUDGE)

    assert (answer.text, answer.finish) == ("Text 1.", "stop")


@both
@pytest.mark.parametrize(
    ("policy", "attempts"),
    [
        (GuardPolicy(text_responses="accept"), 1),
        (GuardPolicy(text_responses="nudge", max_text_nudges=0), 1),
        (GuardPolicy(text_responses="nudge", max_retries=1), 2),
    ],
    ids=["accepted", "never retried", "one retry"],
)
async def test_the_settings_limit_the_retries_of_text(policy: GuardPolicy, attempts: int, stream: bool) -> None:
    answer = await chat(TEXTS, CLINE, stream=stream, policy=policy)

    assert (answer.text, len(answer.asked)) == ("Text 1.", attempts)


@both
async def test_a_client_without_a_terminal_tool_pays_for_one_retry_of_text(stream: bool) -> None:
    answer = await chat(TEXTS, ASK, stream=stream, policy=NUDGE)

    assert (answer.text, answer.attempts) == ("Text 1.", 2)


async def test_an_empty_reply_is_corrected_with_the_terminal_tool() -> None:
    answer = await chat([Said(text=""), END], CLINE)

    assert answer.asked[1]["messages"][-1]["content"].endswith("To finish the task, call attempt_completion.")


@both
async def test_a_required_call_is_enforced_as_before(stream: bool) -> None:
    answer = await chat([TEXTS[0], END], {**CLINE, "tool_choice": "required"}, stream=stream)

    assert answer.asked[1]["messages"][-1]["content"].endswith("Call one of: get_weather, attempt_completion.")
    assert answer.marks is None


@both
async def test_a_terminal_tool_may_be_called_again_with_the_same_arguments(stream: bool) -> None:
    """The user was not satisfied with the first result; the model has nothing to add."""
    call = {"id": "c1", "type": "function", "function": {"name": "attempt_completion", "arguments": END.calls[0][1]}}
    history: list[Any] = [
        *ASK["messages"],
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "The user says: are you sure?"},
    ]

    answer = await chat([TEXTS[0], END], {**CLINE, "messages": history}, stream=stream, policy=NUDGE)

    assert answer.calls == [("attempt_completion", {"result": "Sunny."})]


@both
async def test_a_new_call_after_retried_text_is_delivered(stream: bool) -> None:
    answer = await chat([TEXTS[0], RIGHT], CLINE, stream=stream, policy=NUDGE)

    assert answer.calls == [("get_weather", PARIS)]


@pytest.mark.parametrize("pattern", ["", "!", "two words", "!!x", '["finish"'])
def test_a_pattern_that_cannot_match_a_tool_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="terminal_tools"):
        GuardPolicy.model_validate({"terminal_tools": [pattern]})


def test_patterns_may_be_written_as_one_string() -> None:
    policy = GuardPolicy.model_validate({"terminal_tools": "finish, !submit_*"})

    assert json.loads(policy.model_dump_json())["terminal_tools"] == ["finish", "!submit_*"]
